import contextlib
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadTrace, Unknown
from overlace.ingest.topologies import Bridge, Pattern, read_topology
from overlace.ingest.topologies.nats_conf import NatsReader

GRAPHML = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="label" attr.type="string" for="node" id="d1" />
  <key attr.name="Longitude" attr.type="double" for="node" id="d2" />
  <key attr.name="Latitude" attr.type="double" for="node" id="d3" />
  <key attr.name="label" attr.type="string" for="graph" id="d4" />
  <graph edgedefault="undirected"><data key="d4">Test</data>{}</graph>
</graphml>"""


def node(name, label="", at=None):
    place = f'<data key="d2">{at[1]}</data><data key="d3">{at[0]}</data>' if at else ""
    return f'<node id="{name}"><data key="d1">{label}</data>{place}</node>'


def edge(left, right):
    return f'<edge source="{left}" target="{right}"/>'


@pytest.fixture
def write(tmp_path):
    """Write a file, or several by name, and read what it says."""

    def write_and_read(files, kind=None):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return read_topology(tmp_path / next(iter(files)) if len(files) == 1 else tmp_path, kind)

    return write_and_read


def rows(topology):
    return [tuple(row.values()) for row in topology.links.to_pylist()]


def wires(topology):
    """left, right and who dials, of the wired links."""
    return [(left, right, dials) for left, right, _, _, wired, dials in rows(topology) if wired]


# Laws


@given(st.data())
def test_parallel_links_in_any_order_are_one_the_cheapest_and_loops_are_counted(tmp_path_factory, data):
    count = data.draw(st.integers(1, 5))
    ends = st.integers(0, count - 1)
    edges = data.draw(st.lists(st.tuples(ends, ends, st.integers(1, 9), st.integers(0, 99)), max_size=12))
    file = tmp_path_factory.mktemp("graph") / "x.graph"

    def read(some):
        file.write_text(repetita([f"n{i}" for i in range(count)], some))
        return read_topology(file)

    topology = read(edges)
    best = {}
    for left, right, weight, delay in edges:
        pair = (f"n{min(left, right)}", f"n{max(left, right)}")
        if left != right:
            best[pair] = min(best.get(pair, (weight, delay)), (weight, delay))
    assert rows(topology) == [(*pair, *best[pair], False, None) for pair in sorted(best)]
    loops = sum(left == right for left, right, *_ in edges)
    assert topology.notes == ([f"{loops} links from a broker to itself dropped"] if loops else [])
    assert read(data.draw(st.permutations(edges))).links.equals(topology.links)


@given(st.lists(st.sampled_from(["", "A", "B", "1", "A (0)", "A (1)", "A (0) (0)"]), min_size=1, max_size=7))
def test_every_broker_has_a_name_of_its_own_and_the_only_one_of_a_name_keeps_it(tmp_path_factory, labels):
    file = tmp_path_factory.mktemp("graph") / "x.graphml"
    file.write_text(GRAPHML.format("".join(node(i, label) for i, label in enumerate(labels))))
    brokers = read_topology(file).brokers
    assert len(set(brokers)) == len(labels)
    for label, name in zip(labels, brokers, strict=True):
        assert name.startswith(label)
    if len(set(labels)) == len(labels) and "" not in labels and not any(" " in label for label in labels):
        assert brokers == labels


scalars = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=8)
configs = st.dictionaries(
    st.from_regex(r"[a-z_]{1,6}", fullmatch=True).filter(lambda key: key != "include"),
    st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=5),
    max_size=4,
)
nested = st.recursive(configs, lambda inner: st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3))


def quoted(value):
    text = (
        value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )
    return f'"{text}"'


def written(value, random):
    """A configuration written in one of the many ways that mean the same."""
    gap = random.choice([" ", "\n", " # { a comment [\n", "\n// and = another\n\t"])
    end = random.choice(["\n", ",", " ;", ", # so\n", " // so\n"])
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return "[" + gap + end.join(written(each, random) for each in value) + gap + "]"
    pairs = [key + random.choice([": ", "=", " = ", " ", ":"]) + written(each, random) for key, each in value.items()]
    return "{" + gap + end.join(pairs) + gap + "}"


@given(nested, st.randoms(use_true_random=False), st.booleans())
def test_a_nats_configuration_reads_the_same_however_it_is_written(tmp_path_factory, config, random, braces):
    text = written(config, random)
    read = NatsReader(tmp_path_factory.getbasetemp(), text if braces else text[1:-1], []).read()
    assert read == config


@given(st.text(max_size=40) | st.lists(st.sampled_from(list("{}[]()\"'\\=:,;#/ \na$")), max_size=30).map("".join))
def test_any_text_is_a_nats_configuration_or_a_clear_error(tmp_path_factory, text):
    reader = NatsReader(tmp_path_factory.getbasetemp(), text, [])
    with contextlib.suppress(BadTrace):
        assert isinstance(reader.read(), dict)


# GraphML


def test_latency_is_the_great_circle_at_200_000_km_per_second_and_cost_its_milliseconds(write):
    london, new_york = node(0, "London", (51.5074, -0.1278)), node(1, "New York", (40.7128, -74.0060))
    (link,) = rows(write({"x.graphml": GRAPHML.format(london + new_york + edge(1, 0))}))
    assert link[:2] == ("London", "New York")
    assert link[3] == pytest.approx(5570 * 5, rel=1e-3)
    assert link[2] == link[3] / 1000
    assert link[4:] == (False, None)


def test_a_link_to_nowhere_has_no_cost_and_says_so(write):
    topology = write({"x.graphml": GRAPHML.format(node(0, "A", (1, 2)) + node(1, " B ") + edge(0, 1))})
    assert rows(topology) == [("A", "B", None, None, False, None)]
    assert topology.notes == ["1 of 1 links have an end without coordinates: no latency, no cost"]


def test_two_nodes_of_one_label_are_told_apart_by_their_id(write):
    body = node(0, "A") + node("n1", "B") + node("n2", "A") + node(7) + edge(0, "n2") + edge(0, 0) + edge("n2", 0)
    topology = write({"x.graphml": GRAPHML.format(body)})
    assert topology.brokers == ["A (0)", "B", "A (n2)", "7"]
    assert topology.links.num_rows == 1
    assert "1 links from a broker to itself dropped" in topology.notes


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<graphml>", "not XML"),
        ("<html/>", "outermost element is <html>"),
        (GRAPHML.format(""), "no <node>"),
        (GRAPHML.format(node(0) + node(0)), "id '0'"),
        (GRAPHML.format(node(0) + edge(0, 9)), "'9'"),
        (GRAPHML.format(node(0, "A", ("north", 3))), "'north'"),
        ('<!DOCTYPE graphml [<!ENTITY a SYSTEM "file:///etc/passwd">]><graphml>&a;</graphml>', "entity 'a'"),
        ('<!DOCTYPE graphml [<!ENTITY b "bbbb">]><graphml>&b;</graphml>', "entity 'b'"),
    ],
)
def test_a_graphml_that_is_none_says_what_was_found(write, text, found):
    with pytest.raises(BadTrace, match=found):
        write({"x.graphml": text})


# Repetita


def repetita(nodes, edges):
    lines = [f"NODES {len(nodes)}", "label x y", *(f"{name} 0.0 0.0" for name in nodes), ""]
    lines += [f"EDGES {len(edges)}", "label src dest weight bw delay"]
    lines += [f"e{i} {a} {b} {weight} 1000 {delay}" for i, (a, b, weight, delay) in enumerate(edges)]
    return "\n".join(lines) + "\n"


def test_the_two_directions_of_a_repetita_edge_are_one_link(write):
    topology = write({"x.graph": repetita(["b", "a", "a"], [(0, 1, 2, 231), (1, 0, 1.5, 231), (2, 0, 1, 0)])})
    assert topology.brokers == ["b", "a (1)", "a (2)"]
    assert rows(topology) == [("a (1)", "b", 1.5, 231, False, None), ("a (2)", "b", 1.0, 0, False, None)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "the end of the file. Expected a line `NODES"),
        ("NODES 2\nlabel x y\na 0 0\n", "NODES says 2 rows, found 1"),
        ("NODES 1\nlabel x y\na 0 0\nb 0 0\n", ":4: 'b 0 0'. Expected a line `EDGES"),
        ("NODES 1\nlabel x y\na 0\n", ":3: 2 words"),
        (repetita(["a", "b"], [(0, 2, 1, 1)]), "ends at '2'"),
        (repetita(["a", "b"], [(0, -1, 1, 1)]), "ends at '-1'"),
        (repetita(["a", "b"], [(0, 1, "x", 1)]), "weight is 'x'"),
        (repetita(["a", "b"], [(0, 1, "nan", 1)]), "weight is 'nan'"),
        (repetita(["a", "b"], [(0, 1, 1, 2**31)]), "delay is '2147483648'"),
        (repetita(["a"], []) + "more\n", "'more' after the last edge"),
    ],
)
def test_a_repetita_file_that_is_broken_says_where(write, text, found):
    with pytest.raises(BadTrace, match=found):
        write({"x.graph": text})


# Mosquitto

PLANT_A = """# the centre
listener 1883
allow_anonymous true
"""
PLANT_B = """  listener 1884 0.0.0.0
connection up
  address plant-a.example.org:1883 10.9.9.9:1883
  remote_password topic # both
  remote_clientid bridge of b
  local_clientid b.local
  topic sensors/# both 1 b/ all/b/
  topic # in
  topic "" out 2 here there
connection cloud
  addresses mqtt.example.com
  topic alarms/#
"""


def test_a_bridge_is_a_wired_link_that_its_file_dials(write):
    topology = write({"plant-a.conf": PLANT_A, "plant-b.conf": PLANT_B})
    assert topology.kind == "mosquitto"
    assert topology.brokers == ["plant-a", "plant-b", "mqtt.example.com:1883"]
    assert rows(topology) == [
        ("mqtt.example.com:1883", "plant-b", None, None, True, "plant-b"),
        ("plant-a", "plant-b", None, None, True, "plant-b"),
    ]
    assert topology.bridges == [
        Bridge(
            "plant-b",
            "up",
            "plant-a",
            ("plant-a.example.org:1883", "10.9.9.9:1883"),
            "bridge of b",
            "b.local",
            (
                Pattern("sensors/#", "both", 1, "b/", "all/b/"),
                Pattern("#", "in"),
                Pattern("", "out", 2, "here", "there"),
            ),
        ),
        Bridge("plant-b", "cloud", "mqtt.example.com:1883", ("mqtt.example.com:1883",), topics=(Pattern("alarms/#"),)),
    ]


def bridge(*addresses, name="up"):
    return f"connection {name}\naddress {' '.join(addresses)}\ntopic # both\n"


@pytest.mark.parametrize(
    ("listens", "address", "far"),
    [
        ("listener 2000", "127.0.0.1:2000", "a"),  # one machine: the port tells
        ("listener 2000 localhost", "127.0.0.1:2000", "a"),
        ("port 2000", "localhost:2000", "a"),
        ("", "localhost", "a"),  # the default port, at both ends
        ("listener 2000 10.0.0.1", "10.0.0.1:2000", "a"),
        ("listener 2000 10.0.0.1", "10.0.0.2:2000", "10.0.0.2:2000"),
        ("listener 2000 10.0.0.1", "a.corp:2000", "a"),  # the file's name tells
        ("listener 2000", "10.0.0.1:2000", "a"),  # the only one with that port
        ("listener 2000", "10.0.0.1:2001", "10.0.0.1:2001"),
        ("listener 3000", "10.0.0.1:3000", "10.0.0.1:3000"),  # b has that port too: nothing tells
        ("listener 0 /tmp/socket\nlistener 2000", "[::1]:2000", "a"),
        ("listener 2000 localhost", "10.0.0.1:2000", "10.0.0.1:2000"),
        ("listener 2000", "[fe80::1]:9", "[fe80::1]:9"),
        ("listener 2000\nbind_address localhost", "127.0.0.1", "a"),
    ],
)
def test_an_address_is_matched_to_the_broker_that_listens_there(write, listens, address, far):
    topology = write({"a.conf": listens, "b.conf": "listener 3000\n" + bridge(address)})
    assert [each.remote for each in topology.bridges] == [far]
    assert topology.brokers == (["a", "b"] if far == "a" else ["a", "b", far])
    assert wires(topology) == [(*sorted([far, "b"]), "b")]


def test_what_was_guessed_or_left_out_is_said(write):
    topology = write(
        {
            "a.conf": "listener 2000\ninclude_dir /etc/more\n",
            "b.conf": "listener 3000\n" + bridge("10.0.0.1:2000"),
            "c.conf": "listener 3000\n" + bridge("10.0.0.2:3000"),
        }
    )
    assert ["was not followed" in topology.notes[0], *topology.notes[1:]] == [
        True,
        "b: 10.0.0.1:2000 taken for a, the only broker with that port",
        "c: 10.0.0.2:3000 could be b, but nothing tells: not taken for it. Name the files after their hosts.",
    ]


def test_a_broker_that_is_called_by_name_is_not_also_the_cloud(write):
    a, b = "listener 2000", "listener 3000\n" + bridge("cloud.example.com:2000", name="out")
    assert write({"a.conf": a, "b.conf": b}).brokers == ["a", "b"]
    assert write({"a.conf": a, "b.conf": b + bridge("a:2000")}).brokers == ["a", "b", "cloud.example.com:2000"]
    assert len(write({"a.conf": a, "b.conf": b + bridge("10.0.0.1:2000")}).brokers) == 4


def test_a_spare_address_is_a_link_that_could_be_wired(write):
    topology = write(
        {
            "a.conf": "listener 2000",
            "b.conf": "listener 2001",
            "c.conf": "port 2002\n" + bridge("b:2001", "a:2000", "x"),
        }
    )
    assert [(left, right, wired) for left, right, _, _, wired, _ in rows(topology)] == [
        ("a", "c", False),
        ("b", "c", True),
    ]
    assert topology.brokers == ["a", "b", "c"]


def test_bridges_both_ways_are_one_link_and_a_bridge_to_oneself_none(write):
    topology = write(
        {
            "a.conf": "listener 2000\n" + bridge("b:2001") + bridge("127.0.0.1:2000", name="mirror"),
            "b.conf": "listener 2001\n" + bridge("a:2000"),
        }
    )
    assert wires(topology) == [("a", "b", "a")]
    assert len(topology.bridges) == 3
    assert "1 links from a broker to itself dropped" in topology.notes
    assert "a and b dial each other: one link" in topology.notes


def test_files_of_one_name_are_called_by_their_folders(write):
    topology = write(
        {"north/mosquitto.conf": "listener 2000", "south/mosquitto.conf": "listener 2001\n" + bridge("north:2000")}
    )
    assert wires(topology) == [("north", "south", "south")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("listener abc", "port is 'abc'"),
        ("port 70000", "port is '70000'"),
        ("connection up\naddress a:b", "port is 'b'"),
        ("connection up\ntopic #", ":1: connection up has no address"),
        ("connection up\ntopic # sideways", ":2: topic '# sideways'"),
        ("connection up\ntopic # both 3", "both 3"),
    ],
)
def test_a_mosquitto_conf_that_is_broken_says_where(write, text, found):
    with pytest.raises(BadTrace, match=found):
        write({"x.conf": text}, "mosquitto")


# NATS

HUB = """
server_name: hub   # the centre
listen 0.0.0.0:4222
leafnodes {
    listen: "0.0.0.0:7422"
    no_advertise = true
}
"""
LEAF = """
server_name = leaf
LEAF_PORT = 7500; port: 4333
include 'accounts.conf'
accounts { A { users = [ {user: a, password: $2a$11$x/y} ] }, SYS {} } // two
leafnodes: {
  port = $LEAF_PORT
  remotes: [
    # the same hub for two accounts
    { url: "nats-leaf://user:secret@hub:7422", account: A }
    { urls: [ nats://u:p@hub, "nats://10.0.0.9:7422" ] },
    { url = tls://cloud.example.com:7422 }
  ]
}
jwt: (
  leafnodes { port: 1 }
)
token: $TOKEN
"""


def test_an_included_file_is_a_part_of_its_server_and_none_of_its_own(write):
    remotes = 'remotes: [ { url: "nats-leaf://u:p@hub:7422" } ]'
    leaf = "server_name: leaf\nleafnodes {\n  port: 7500\n  include 'parts/leaf.remotes.conf'\n}\ninclude \"a.conf\"\n"
    files = {"1.conf": HUB, "2.conf": leaf, "a.conf": "token: $TOKEN", "parts/leaf.remotes.conf": remotes}
    topology = write(files)
    assert topology.brokers == ["hub", "leaf"]
    assert wires(topology) == [("hub", "leaf", "leaf")]
    assert len(topology.notes) == 1  # of the token, once
    with pytest.raises(BadTrace, match=r"leaf.remotes.conf:1: the file ends inside an array"):
        write({**files, "parts/leaf.remotes.conf": "remotes: ["})


def test_an_include_stays_in_the_folder_ends_and_leads_nowhere_twice(write, tmp_path):
    (tmp_path.parent / "outside.conf").write_text('remotes: [ { url: "nats://elsewhere:1" } ]')
    (tmp_path / "link.conf").symlink_to(tmp_path.parent / "outside.conf")
    for name, why in {"../outside.conf": "outside", "link.conf": "outside", "none.conf": "no such file"}.items():
        (tmp_path / "sub").mkdir(exist_ok=True)
        file = tmp_path / "sub" / "1.conf" if name != "link.conf" else tmp_path / "1.conf"
        file.write_text(f"server_name: a\nleafnodes {{ port: 7000\n include '{name}'\n }}\n")
        found = read_topology(file, "nats")
        assert found.brokers == ["a"]
        assert "was not followed" in found.notes[0]
        assert why in found.notes[0]
    (tmp_path / "link.conf").unlink()
    with pytest.raises(BadTrace, match="leads back"):
        write({"1.conf": "include 2.conf\n", "2.conf": "include 1.conf\n"}, "nats")
    with pytest.raises(BadTrace, match="at most 8 deep"):
        write({f"{i}.conf": f"include {i + 1}.conf\n" for i in range(12)} | {"12.conf": "a: b"}, "nats")


def test_files_of_an_include_dir_are_parts_of_their_broker(write, tmp_path):
    files = {"a.conf": "listener 2000", "b.conf": "listener 3000\ninclude_dir more\n", "more/1.conf": bridge("a:2000")}
    topology = write(files)
    assert topology.brokers == ["a", "b"]
    assert wires(topology) == [("a", "b", "b")]
    assert topology.notes == []
    with pytest.raises(BadTrace, match="leads back"):
        write({**files, "b.conf": "listener 3000\ninclude_dir .\n"})


def test_a_leafnode_remote_is_a_wired_link_that_its_server_dials(write):
    topology = write({"1.conf": HUB, "2.conf": LEAF})
    assert topology.kind == "nats"
    assert topology.brokers == ["hub", "leaf", "cloud.example.com:7422"]
    assert wires(topology) == [("cloud.example.com:7422", "leaf", "leaf"), ("hub", "leaf", "leaf")]
    said = "\n".join(topology.notes)
    assert "include accounts.conf was not followed" in said
    assert "$TOKEN comes from the server's environment" in said
    assert not any(secret in f"{topology}{said}" for secret in ("secret", "u:p", "$2a$"))


def test_a_variable_is_the_value_of_the_key_further_up(write):
    chain = "leafnodes { remotes [ { url: nats://localhost:7500 } ] }"
    topology = write({"a.conf": LEAF.replace("server_name = leaf", ""), "b.conf": chain})
    assert ("a", "b", "b") in wires(topology)


def test_a_server_without_a_name_is_called_by_its_file_and_json_will_do(write):
    topology = write(
        {
            "east.conf": '{"leafnodes": {"port": 7422}}',
            "west.conf": '{"server_name": $HOSTNAME, "leafnodes": {"remotes": [{"urls": ["nats://east"]}]}}',
        }
    )
    assert wires(topology) == [("east", "west", "west")]


def test_the_routes_of_a_cluster_are_no_links(write):
    topology = write({"n1.conf": "server_name: n1\ncluster { name: C, port: 6222, routes: [nats://n2:6222] }"})
    assert topology.links.num_rows == 0
    assert "full mesh" in topology.notes[0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("leafnodes {", ":1: the file ends inside a block"),
        ("a: [1, 2", "inside an array"),
        ("a: 1\n}", ":2: '}' where a key"),
        ("password: secret word\n", ":1: something follows a value"),
        ("a: }", "without a value"),
        ("a: {} b: 'open", "without a value"),
        ("leafnodes { remotes: [ {account: A} ] }", "has no url"),
        ('leafnodes { remotes: [ {url: "nats://secret:x:y"} ] }', "cannot be read"),
        ("a " + "{a " * 60 + "}" * 60, "at most 50"),
        ("a " + "[" * 2000, "at most 50"),
        ("leafnodes { port: 70000 }", "port is '70000'"),
    ],
)
def test_a_nats_configuration_that_is_broken_says_where_and_shows_no_secret(write, text, found):
    with pytest.raises(BadTrace, match=found) as caught:
        write({"x.conf": text}, "nats")
    assert "secret" not in str(caught.value)


def test_two_servers_of_one_name_are_refused(write):
    with pytest.raises(BadTrace, match="also in 1"):
        write({"1.conf": HUB, "2.conf": HUB})


# Which kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (GRAPHML.format(node(0)), "graphml"),
        ("\n" + repetita(["a"], []), "repetita"),
        ("# {\nlistener 1883\n", "mosquitto"),
        ("port 1883\n", "mosquitto"),
        ("connection x\naddress h:1\ntopic {x}/# out\n", "mosquitto"),
        ("port: 4222\n", "nats"),
        ("leafnodes {}\n", "nats"),
        ("# c\n// c\nserver_name x\n", "nats"),
        ('{"port": 4222}', "nats"),
    ],
)
def test_the_kind_is_told_by_the_content(write, text, kind):
    assert write({"some.conf": text}).kind == kind


def test_what_cannot_be_told_or_found_is_a_clear_error(write, tmp_path):
    with pytest.raises(BadTrace, match="Say which it is: graphml"):
        write({"x.txt": "hello\n"})
    with pytest.raises(BadTrace, match="No such file"):
        read_topology(tmp_path / "none.graphml")
    with pytest.raises(Unknown, match="graphml"):
        write({"x.txt": ""}, "graphm")
    with pytest.raises(BadTrace, match="one file for one topology"):
        read_topology([tmp_path / "x.txt", write_empty(tmp_path)], "graphml")
    with pytest.raises(BadTrace, match=r"no \*.conf"):
        read_topology(tmp_path)
    with pytest.raises(BadTrace, match="no topology file given"):
        read_topology([])


def write_empty(folder):
    (folder / "y.txt").write_text("")
    return folder / "y.txt"


def test_a_packed_topology_is_read_as_the_plain_one(tmp_path):
    text = "NODES 2\nlabel x y\na 0 0\nb 0 0\n\nEDGES 1\nlabel src dest weight bw delay\ne 0 1 5 1 2\n"
    (tmp_path / "x.graph").write_text(text)
    (tmp_path / "x.graph.gz").write_bytes(gzip.compress(text.encode()))
    assert read_topology(tmp_path / "x.graph") == read_topology(tmp_path / "x.graph.gz")


def test_a_graph_s_weights_are_its_costs_and_what_lacks_one_is_said(tmp_path):
    data = "".join(
        f'<edge source="{a}" target="{b}">{"<data key=" + chr(34) + "w" + chr(34) + f">{w}</data>" if w else ""}</edge>'
        for a, b, w in (("a", "b", 3), ("b", "c", 0.5), ("a", "c", None))
    )
    nodes = "".join(f'<node id="{name}"/>' for name in "abc")
    key = '<key id="w" for="edge" attr.name="weight" attr.type="double"/>'
    (tmp_path / "net.graphml").write_text(f"<graphml>{key}<graph>{nodes}{data}</graph></graphml>")
    topology = read_topology([tmp_path / "net.graphml"])
    costs = dict(zip(zip(*(topology.links[end].to_pylist() for end in ("left", "right")), strict=True),
                     topology.links["cost"].to_pylist(), strict=True))  # fmt: skip
    assert costs == {("a", "b"): 3.0, ("b", "c"): 0.5, ("a", "c"): None}
    assert "1 of 3 links have no cost, where others have one" in topology.notes
