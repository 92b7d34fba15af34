"""From a topology to a tree: `--wired mst`, `all` and a table of links."""

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadTrace
from overlace.ingest.tables import add_tables, add_topology
from overlace.ingest.wiring import WiringRequest
from overlace.trace.store import Trace


def repetita(brokers, links):
    """A Repetita file of links (left, right, weight, delay)."""
    edges = [f"e{i} {a} {b} {cost} 1000 {delay}" for i, (a, b, cost, delay) in enumerate(links)]
    head = [f"NODES {brokers}", "label x y", *(f"b{i} 0 0" for i in range(brokers)), ""]
    return "\n".join([*head, f"EDGES {len(links)}", "label src dest weight bw delay", *edges, ""])


def graphml(brokers, links, places=()):
    """A GraphML file of links (left, right); places are latitude and longitude of the first brokers."""
    keys = "".join(f'<key attr.name="{n}" for="node" id="{n}"/>' for n in ("label", "Latitude", "Longitude"))
    nodes = [
        f'<node id="{i}"><data key="label">b{i}</data>'
        + "".join(f'<data key="{k}">{v}</data>' for k, v in zip(("Latitude", "Longitude"), place, strict=False))
        + "</node>"
        for i, place in enumerate([*places, *[()] * (brokers - len(places))])
    ]
    edges = [f'<edge source="{a}" target="{b}"/>' for a, b in links]
    return f"<graphml>{keys}<graph>{''.join(nodes)}{''.join(edges)}</graph></graphml>"


def wired(trace):
    """The wired links by name."""
    name = trace.names["broker"]
    return {frozenset((name[r["left"]], name[r["right"]])) for r in trace.read("links").to_pylist() if r["wired"]}


def links(*pairs):
    return {frozenset(pair.split("-")) for pair in pairs}


@pytest.fixture
def put(tmp_path):
    """Merge a topology into the trace; (wired links, notes)."""

    def add(text, how=None, name="x.graph", **options):
        (tmp_path / name).write_text(text)
        trace, _, notes = add_topology(
            [str(tmp_path / name)], str(tmp_path / "t"), wired=WiringRequest(how, options) if how else None
        )
        return wired(trace), notes

    return add


graphs = st.integers(2, 9).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(0, 4), st.integers(0, 3)).filter(
                lambda link: link[0] != link[1]
            ),
            min_size=1,
            max_size=20,
            unique_by=lambda link: frozenset(link[:2]),
        ),
    )
)


@settings(max_examples=40, deadline=None)
@given(graphs, st.randoms())
def test_mst_is_a_forest_of_least_cost_over_what_is_linked_whatever_the_order_of_the_file(
    tmp_path_factory, graph, random
):
    n, edges = graph
    folder = tmp_path_factory.mktemp("t")

    def tree(name, given):
        (folder / f"{name}.graph").write_text(repetita(n, given))
        trace, _, notes = add_topology([str(folder / f"{name}.graph")], str(folder / name), wired=WiringRequest("mst"))
        return wired(trace), notes

    found, notes = tree("a", edges)
    oracle = nx.Graph()
    oracle.add_nodes_from(f"b{i}" for i in range(n))
    oracle.add_weighted_edges_from((f"b{a}", f"b{b}", cost) for a, b, cost, _ in edges)
    costs = {frozenset(pair): oracle.edges[pair]["weight"] for pair in oracle.edges}
    least = nx.minimum_spanning_tree(oracle)
    assert sum(costs[pair] for pair in found) == least.size("weight")
    ours = nx.Graph([tuple(pair) for pair in found])
    ours.add_nodes_from(oracle)
    assert nx.is_forest(ours)
    assert sorted(map(sorted, nx.connected_components(ours))) == sorted(map(sorted, nx.connected_components(oracle)))
    apart = n - len(max(nx.connected_components(oracle), key=len))
    assert any(f"{apart} of {n} brokers are not joined" in note for note in notes) == bool(apart)
    shuffled = random.sample(edges, len(edges))
    assert tree("b", [(b, a, *rest) for a, b, *rest in shuffled])[0] == found


@settings(max_examples=30, deadline=None)
@given(graphs)
def test_all_is_refused_exactly_where_links_form_a_cycle_and_names_the_links_of_one(tmp_path_factory, graph):
    n, edges = graph
    folder = tmp_path_factory.mktemp("t")
    (folder / "x.graph").write_text(repetita(n, edges))
    given = nx.Graph((f"b{a}", f"b{b}") for a, b, *_ in edges)
    try:
        found = wired(add_topology([str(folder / "x.graph")], str(folder / "t"), wired=WiringRequest("all"))[0])
    except BadTrace as error:
        named = str(error).partition("form a cycle: ")[2].partition(".")[0].split(", ")
        cycle = nx.Graph(tuple(link.split(" - ")) for link in named)
        assert all(given.has_edge(*link) for link in cycle.edges)
        assert all(degree == 2 for _, degree in cycle.degree)
        assert nx.is_connected(cycle)
        assert not (folder / "t" / "trace.json").exists()
    else:
        assert found == {frozenset(link) for link in given.edges}
        assert nx.is_forest(given)


def test_ties_go_to_the_lowest_id(put):
    square = repetita(4, [(2, 3, 1, 1), (0, 1, 1, 1), (1, 2, 1, 1), (0, 3, 1, 1)])
    assert put(square, "mst")[0] == links("b0-b1", "b0-b3", "b1-b2")


def test_graphml_is_wired_by_distance_and_by_number_of_links_where_there_is_none(put):
    ring = [(0, 1), (1, 2), (0, 2)]
    near = graphml(3, ring, [(50, 0), (50, 9), (50, 10)])
    tree, notes = put(near, "mst", "near.graphml")
    assert tree == links("b0-b1", "b1-b2")
    assert notes == ["2 of 3 links are wired: a minimum spanning tree, by cost"]
    tree, notes = put(graphml(3, ring), "mst", "x.graphml")
    assert tree == links("b0-b1", "b1-b2")  # the costs of before stay


def test_without_costs_and_places_each_link_counts_1(put):
    tree, notes = put(graphml(3, [(1, 2), (0, 2), (0, 1)]), "mst", "x.graphml")
    assert tree == links("b0-b1", "b0-b2")
    assert "each link counting 1" in notes[-1]


def test_without_costs_latency_counts(put, tmp_path):
    (tmp_path / "l.csv").write_text("left,right,latency_us\nb0,b1,900\nb1,b2,5\nb0,b2,5\n")
    add_tables([str(tmp_path / "l.csv")], "links", str(tmp_path / "t"), {})
    tree, notes = put(graphml(3, [(1, 2), (0, 2), (0, 1)]), "mst", "x.graphml")
    assert tree == links("b0-b2", "b1-b2")
    assert any("by latency" in note for note in notes)


def test_a_link_of_unknown_cost_is_wired_only_where_no_other_leads_and_that_is_said(put):
    places = [(50, 0), (50, 9), (50, 10)]
    tree, notes = put(graphml(4, [(0, 1), (1, 2), (0, 2), (2, 3)], places), "mst", "x.graphml")
    assert tree == links("b0-b1", "b1-b2", "b2-b3")
    assert any(note.startswith("b2 - b3 is wired and without a cost") for note in notes)


def test_a_table_says_which_links_are_wired_and_strangers_are_named_with_the_nearest(put, tmp_path):
    graph = repetita(4, [(0, 1, 1, 1), (1, 2, 1, 1), (2, 3, 1, 1), (0, 3, 9, 1)])
    table = tmp_path / "tree.csv"
    table.write_text("left,right\nb3,b0\nb1,b0\nb1,b2\n")
    tree, notes = put(graph, str(table))
    assert tree == links("b0-b1", "b1-b2", "b0-b3")
    assert notes == ["3 of 4 links are wired"]
    table.write_text("0 3\n0 1\n".replace("0", "b0").replace("3", "b3").replace(" 1", " b1"))
    assert put(graph, str(table), header=False, map={"left": "0", "right": "1"})[0] == links("b0-b3", "b0-b1")
    table.write_text("left,right,wired\nb0,b1,yes\nb1,b2,no\n")
    assert put(graph, str(table))[0] == links("b0-b1")
    for text, says in [
        ("left,right\nb0,b11\n", r"tree.csv: no broker .* is called 'b11'. Nearest: b1"),
        ("left,right\nb0,b2\n", r"b0 - b2 is no link of the topology; b0 has b0 - b1, b0 - b3"),
        ("left,right\nb0,b1\nb1,b2\nb2,b3\nb3,b0\n", r"form a cycle: .*b0"),
        ("left\nb0\n", r"tree.csv: found the columns left; expected left right"),
    ]:
        table.write_text(text)
        with pytest.raises(BadTrace, match=says):
            put(graph, str(table))
    assert wired(Trace.open(str(tmp_path / "t"))) == links("b0-b1")


def test_wired_is_the_whole_tree_also_in_a_trace_that_had_another(put, tmp_path):
    (tmp_path / "l.csv").write_text("left,right\nb0,b1\nb1,old\n")
    add_tables([str(tmp_path / "l.csv")], "links", str(tmp_path / "t"), {})
    graph = repetita(3, [(0, 1, 9, 1), (1, 2, 1, 1), (0, 2, 1, 1)])
    assert put(graph)[0] == links("b0-b1", "b1-old")  # a map does not say what is wired
    tree, notes = put(graph, "mst")
    assert tree == links("b0-b2", "b1-b2")
    assert "no longer wired, as --wired names the whole tree: b0 - b1, b1 - old" in notes
    assert any(note.startswith("1 of 4 brokers are not joined to the others: old.") for note in notes)
    assert put(graph, "mst")[0] == tree


def test_a_topology_in_which_nothing_is_wired_says_so_with_the_command_that_wires_it(put, tmp_path):
    _, notes = put(repetita(2, [(0, 1, 1, 1)]), name="my net.graph")
    command = f"overlace ingest '{tmp_path}/my net.graph' --topology --wired mst --out {tmp_path}/t"
    assert notes[-1].endswith(f"To wire a minimum spanning tree: {command}")
    conf = "listener 1884 127.0.0.1\nconnection up\naddress hub:1883\n"
    assert put(conf, name="plant.conf") == (links("plant-hub:1883"), [])


def test_a_link_that_has_ended_stays_as_it_was(put, tmp_path):
    (tmp_path / "l.csv").write_text("left,right,until\nb0,b1,2020-01-01\n")
    add_tables([str(tmp_path / "l.csv")], "links", str(tmp_path / "t"), {})
    assert put(repetita(3, [(0, 1, 1, 1), (1, 2, 1, 1)]), "mst")[0] == links("b0-b1", "b1-b2")
    rows = Trace.open(str(tmp_path / "t")).read("links").to_pylist()
    assert len([row for row in rows if row["until"]]) == 1


def test_on_the_command_line_wired_goes_with_topology_only(overlace, tmp_path):
    (tmp_path / "x.graph").write_text(repetita(3, [(0, 1, 1, 1), (1, 2, 1, 1)]))
    (tmp_path / "l.csv").write_text("left,right\nb0,b1\n")
    code, out, _ = overlace("ingest", "x.graph", "--topology", "--out", "t")
    assert code == 0
    assert "overlace ingest x.graph --topology --wired mst --out t" in out
    code, out, _ = overlace("ingest", "x.graph", "--topology", "--wired", "all", "--out", "t")
    assert "2 of 2 links are wired" in out
    for words in (["x.graph"], ["l.csv", "--table", "links"]):
        code, _, err = overlace("ingest", *words, "--wired", "mst", "--out", "u")
        assert (code, "--wired goes with --topology" in err) == (2, True)
    code, _, err = overlace("ingest", "x.graph", "--topology", "--map", "left=a", "--out", "u")
    assert (code, "work on tables, not on topologies" in err) == (2, True)
