"""The page says what was measured, whatever is there and whatever things are called."""

import json
import re
import shutil
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import overlace.report
from overlace.errors import BadTrace
from overlace.limits import Split
from overlace.model import Names, Observation
from overlace.optimize.plan import solve
from overlace.optimize.replay import replay
from overlace.optimize.result import read_metrics
from overlace.optimize.task import observe
from overlace.planners.tree.baselines import Mst
from overlace.report.layout import MOST_MARKS
from overlace.report.page import write_report
from overlace.report.sheets import change, sheet_of, shown
from overlace.report.tables import MOST_ROWS
from overlace.testing import linked_clients, three_publishers
from overlace.trace.runs import read_observation, write_json, write_observation
from overlace.trace.store import HOUR_US, Trace
from overlace.trace.tables import schema_of
from overlace.trace.writer import Writer

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "a & b </style></table>",
    "{{ 7 * 7 }} {% raw %}",
    "\u202eturned \x00 round",
    "x" * 5000,
]


def trace_of_sites(
    path, *, regions=3, per_region=2, clients=12, hostile=False, bytes_each=100, wired=True, given=True, seed=0
):
    """A trace as ingest would leave it: brokers in regions, hourly traffic, a log with bad lines."""
    rng = np.random.default_rng(seed)
    n, topics = regions * per_region, 5
    known = {"broker": n, "client": clients, "region": regions, "topic": topics}
    names = {kind: [f"{kind}-{i}" for i in range(size)] for kind, size in known.items()}
    if not given:
        del names["region"]
    if hostile:
        for kind, called in names.items():
            called[: len(HOSTILE)] = [f"{bad}{kind}" for bad in HOSTILE[: len(called)]]
    left, right = np.triu_indices(n, 1)
    far = left // per_region != right // per_region
    home = rng.integers(0, n, clients)
    audiences = [sorted(rng.choice(clients, 3, replace=False).tolist()) for _ in range(8)]
    rows = 60
    audience = rng.integers(0, len(audiences), rows)
    sent = rng.integers(1, 50, rows)
    empty = [None] * len(left)
    tables = {
        "brokers": [(b, b // per_region if given else None, None, None, 1.0, None, None, None) for b in range(n)],
        "links": list(
            zip(
                left.tolist(), right.tolist(), (1.0 + 9.0 * far).tolist(), (200 + 9000 * far).tolist(),
                (wired & (left == (right - 1) // 2)).tolist(), empty, empty, empty, strict=True,
            )
        ),
        "sessions": [(c, int(b), None, None) for c, b in enumerate(home)],
        "audiences": list(enumerate(audiences)),
        "traffic": [
            (
                1_767_571_200_000_000 + i % 10 * HOUR_US, int(rng.integers(clients)), int(rng.integers(topics)), None,
                int(audience[i]), int(sent[i]), int(sent[i]), int(sent[i]) * bytes_each,
            )
            for i in range(rows)
        ],
        "sources": [("00ff", HOSTILE[0] if hostile else "plant.log", "jsonl", 1234, 1200, 20, 10, 4)],
        "quarantine": [("plant.log", "not JSON", 10, f"<b>bad</b>\x00 {HOSTILE[1]}")],
    }  # fmt: skip
    writer = Writer(str(path))
    writer.name(names, {kind: np.arange(len(each)) for kind, each in names.items()})
    for name, listed in tables.items():
        writer.write(name, table_of(name, listed))
    writer.commit(bucket_us=HOUR_US, unit="message", notes={})
    return str(path)


def table_of(name, rows):
    schema = schema_of(name)
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def run_of_sites(folder, *, plan=True, **options):
    """A whole run: observed, planned, replayed."""
    trace = trace_of_sites(folder / "trace", **options)
    run = folder / "run"
    observe(trace, run)
    if plan:
        observation, names = read_observation(run)
        solve(Mst(), observation, run, names)
    replay(run)
    return run


def run_of(folder, observation, names: Names | None = None):
    """A run with only an observation, replayed on a trace without traffic."""
    writer = Writer(str(folder / "trace"))
    trace = writer.commit(bucket_us=HOUR_US, unit="message", notes={})
    run = folder / "run"
    run.mkdir()
    write_observation(run, observation, names)
    about = {"trace": str(folder / "trace"), "trace_digest": trace.digest(), "unit": "message"}
    write_json(run / "run.json", about | {"train": [0, 0], "held_out": [0, 0], "share": 1.0, "warning": ""})
    replay(run)
    return run


class Page(HTMLParser):
    """A page taken apart: tables by caption, numbers with their full value, text, attributes."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.tiles, self.text, self.attributes, self.tags = {}, {}, [], [], []
        self._rows, self._row, self._caption, self._in, self._label = [], None, "", "", ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._row = []
        elif tag in ("td", "th"):
            self._row.append("")
        elif tag == "data" and self._row is not None:
            self._row[-1] = float(given["value"])
        elif tag == "data" and self._label:
            self.tiles.setdefault(self._label, []).append(float(given["value"]))
        if given.get("class") == "help":
            self._label = " "
        if tag in ("caption", "style", "title"):
            self._in = tag

    def handle_endtag(self, tag):
        if tag == "tr":
            self._rows.append(self._row)
            self._row = None
        elif tag == "table":
            self.tables[self._caption] = self._rows[1:]
        elif tag == "div":
            self._label = ""
        if tag == self._in:
            self._in = ""

    def handle_data(self, data):
        if self._in != "style":
            self.text.append(data)
        if self._in == "caption":
            self._caption += data
        elif self._label == " ":
            self._label = data
        elif self._row and isinstance(self._row[-1], str):
            self._row[-1] += data


def page_of(run):
    text = write_report(run).read_text(encoding="utf-8")
    return Page(text), text


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    run = run_of_sites(tmp_path_factory.mktemp("sites"))
    return (run, *page_of(run))


def measured(run, name="before/held-out"):
    return sheet_of(read_metrics(run / "metrics.parquet")[name])


def plan_of(run):
    return next((run / "plans").iterdir()).name


def test_the_numbers_on_top_are_the_metrics_before_and_after(sites):
    run, page, _ = sites
    before, after = measured(run), measured(run, f"{plan_of(run)}/held-out")
    for label, metric in {
        "traffic cost": "cost",
        "links crossed per message": "crossings",
        "links per delivery": "mean_hops",
        "mean latency": "mean_latency_us",
        "deliveries at one broker": "local_share",
    }.items():
        assert page.tiles[label] == [before.of(metric), after.of(metric)]
    said = " ".join(page.text)
    assert shown(before.of("deliveries")) in said
    assert change("cost", before.of("cost"), after.of("cost")).text in said


def test_the_links_on_the_page_are_the_links_of_the_metrics(sites):
    run, page, _ = sites
    before = measured(run)
    messages, cost = before.by_pair("messages", "link"), before.by_pair("cost", "link")
    rows = page.tables["Over each link (traffic cost in messages × cost of links)"]
    assert len(rows) == sum(value > 0 for value in cost.values())
    for name, carried, _, costs, part in rows:
        link = tuple(int(b) for b in re.findall(r"broker-(\d+)", name))
        assert (carried, costs) == (messages[link], cost[link])
        assert part == pytest.approx(costs / before.of("cost"))
    assert [row[3] for row in rows] == sorted((row[3] for row in rows), reverse=True)


def test_who_causes_it_adds_up_to_no_more_than_everything(sites):
    run, page, _ = sites
    total = measured(run).of("link_messages")
    for scope in ("client", "topic"):
        named = measured(run).by("link_messages", scope)
        rows = page.tables[f"By {scope}"]
        assert [row[1] for row in rows] == sorted((v for v in named.values() if v > 0), reverse=True)[:10]
        assert sum(row[1] for row in rows) <= total
        assert sum(row[3] for row in rows) <= 1 + 1e-9
    pairs = page.tables["By sender and receiver"]
    assert all(amount == sent * links for _, amount, sent, links, _ in pairs)


def test_matrices_hold_every_delivery_once(sites):
    run, page, _ = sites
    for caption, metric in {
        "Deliveries between regions": "deliveries",
        "Messages over the links between and within regions": "crossing_messages",
    }.items():
        cells = [cell for row in page.tables[caption] for cell in row if isinstance(cell, float)]
        assert sum(cells) == sum(measured(run).by_pair(metric, "region pair").values())


def test_what_breaks_is_shown_before_and_after(sites):
    run, page, _ = sites
    before, after = measured(run), measured(run, f"{plan_of(run)}/held-out")
    for name, today, then in page.tables["If one broker fails"]:
        b = int(name.strip().removeprefix("broker-"))
        assert (today, then) == (before.by("cut_share", "broker")[b], after.by("cut_share", "broker")[b])


def test_every_line_is_accounted_for(sites):
    _, page, _ = sites
    said = " ".join(page.text)
    assert "1,234 = 1,200 + 20 + 10 + 4" in said
    assert "not JSON" in said
    assert "does not add up" not in said


def test_each_step_of_each_plan_says_why(sites):
    run, page, _ = sites
    document = json.loads((run / "plans" / plan_of(run) / "plan.json").read_text())
    said = " ".join(page.text)
    assert document["steps"]
    assert all(step["why"] in said for step in document["steps"])
    assert f"overlace solve tree.mst {run.name}" in said


def scripts(text):
    return re.findall(r"<script>(.*?)</script>", text, re.DOTALL)


def test_the_page_says_how_a_plan_is_carried_out(sites, tmp_path):
    """By the name of the run folder, in quotes where a shell needs them; not where nothing changes."""
    run = tmp_path / "a run; rm"
    shutil.copytree(sites[0], run)
    text = unescape(write_report(run).read_text())
    for plan in (run / "plans").iterdir():
        document = json.loads((plan / "plan.json").read_text())
        command = f"overlace live export '{run.name}/plans/{plan.name}' --to clients --out FOLDER"
        assert (command in text) == bool(document["steps_total"] and {"tree", "placement"} & set(document["facets"]))


def test_the_page_asks_for_nothing_and_runs_only_its_own_script(sites):
    _, page, text = sites
    (script,) = scripts(text)
    assert script == Path(overlace.report.__file__).with_name("page.js").read_text(encoding="utf-8")
    assert "http://" not in text
    assert "https://" not in text
    assert page.tags.count("script") == 1
    assert not {"iframe", "img", "object", "embed", "form"} & set(page.tags)
    assert "@import" not in text
    assert "url(" not in text
    links = [value for _, name, value in page.attributes if name in ("href", "src", "xlink:href", "action")]
    assert all(value == "data:," or value.startswith("#") for value in links)
    ids = {value for _, name, value in page.attributes if name == "id"}
    assert {value[1:] for value in links if value.startswith("#")} <= ids
    assert len(text) < 5_000_000


def test_pictures_are_told_in_words(sites):
    _, page, text = sites
    labels = re.findall(r'<svg [^>]*role="img" aria-label="([^"]+)"', text)
    assert len(labels) == page.tags.count("svg") >= 5
    assert "The overlay, after" in " ".join(labels)


def test_the_same_run_gives_the_same_bytes(sites):
    run, _, text = sites
    assert write_report(run).read_text(encoding="utf-8") == text
    assert not list(run.glob(".report*"))


def test_whoever_gave_no_regions_reads_of_none(tmp_path):
    page, text = page_of(run_of_sites(tmp_path, given=False))
    assert "region" not in text.replace(' class="region"', "").lower()
    assert "Deliveries between brokers" in page.tables
    assert page.tables["Deliveries between brokers"][0][0] == "broker-0"


def test_costs_carry_their_unit(sites):
    _, page, text = sites
    unit = "messages × cost of links"
    tiles = re.findall(r'<div class="tile".*?</div>', text)
    assert [unit in tile for tile in tiles if "traffic cost" in tile] == [True]
    assert f"traffic cost ({unit})" in [row[0].strip() for row in page.tables["Traffic cost in numbers"]]
    captions = [caption for caption in page.tables if caption.startswith("Over ")]
    assert captions
    assert all(unit in caption for caption in captions)
    assert re.search(rf"Planner's estimate [\d,]+ → [\d,]+ \({unit}\)", " ".join(page.text))
    assert all(unit in said for _, said in json.loads(unescape(re.search(r'data-stops="([^"]*)"', text)[1])))


def test_a_page_that_is_forwarded_names_no_path_of_the_machine_it_was_made_on(sites, tmp_path):
    """Of a run by an absolute path: neither its folder nor the trace's nor the user's, also where that is gone."""
    shutil.copytree(sites[0], tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    write_json(tmp_path / "run" / "run.json", about | {"trace": str(tmp_path / "gone" / "trace")})
    for run, text in ((sites[0], sites[2]), (tmp_path / "run", page_of(tmp_path / "run")[1])):
        assert run.is_absolute()
        for path in (run.parent, tmp_path, Path.home(), Path.cwd(), Path(overlace.report.__file__).parent):
            assert f"{path}" not in unescape(text)


def test_every_step_is_in_the_table_and_columns_without_anything_are_left_out(sites, tmp_path):
    run, _, text = sites
    document = json.loads((run / "plans" / plan_of(run) / "plan.json").read_text())
    body = re.search(r'<div class="scroll steps.*?</table>', text, re.DOTALL)[0].partition("<tbody>")[2]
    assert re.findall(r"<tr><td>(\d+)</td>", body) == [str(step["step"]) for step in document["steps"]]
    page, text = page_of(run_of_sites(tmp_path, bytes_each=0))
    assert "0 B" not in text
    assert not re.findall(r"<th[^>]*>[^<]*bytes", text)
    links = [rows for caption, rows in page.tables.items() if caption.startswith("Over each link")]
    assert links
    assert all(len(row) == 4 for row in links[0])  # link, messages, cost, share


def test_no_private_words(sites):
    said = " ".join(sites[1].text).lower()
    for words in (
        "the bill",
        "part that plan",
        "not seen",
        "never seen",
        "lifted",
        "hang together",
        " part of the log",
    ):
        assert words not in said


def test_the_word_cluster_is_nowhere(sites):
    assert "cluster" not in sites[2].lower()


def test_hostile_names_stay_text(tmp_path):
    run = run_of_sites(tmp_path, hostile=True)
    page, text = page_of(run)
    assert page.tags.count("script") == 1
    assert "alert" not in scripts(text)[0]
    assert "img" not in page.tags
    assert page.tags.count("style") == 1
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "{{ 7 * 7 }}" in text
    assert "\x00" not in text
    assert "\u202e" not in text
    assert len(text) < 500_000  # long names are cut


def test_without_a_plan_the_page_explains_the_trace_alone(tmp_path):
    run = run_of_sites(tmp_path, plan=False)
    page, text = page_of(run)
    assert page.tiles["traffic cost"] == [measured(run).of("cost")]
    assert "no plan in this run" in text
    assert 'id="plans"' not in text
    assert 'id="network"' in text


def test_without_its_trace_the_page_says_so(tmp_path):
    run = run_of_sites(tmp_path, plan=False)
    shutil.rmtree(tmp_path / "trace")
    page, text = page_of(run)
    assert "cannot be read any more" in text
    assert page.tiles["traffic cost"] == [measured(run).of("cost")]


def test_a_trace_that_has_changed_is_not_accounted_for(tmp_path):
    run = run_of_sites(tmp_path, plan=False)
    shutil.rmtree(tmp_path / "trace")
    trace_of_sites(tmp_path / "trace", seed=1)
    assert "has changed since" in page_of(run)[1]


def test_a_plan_that_was_not_replayed_is_named(tmp_path):
    run = run_of_sites(tmp_path, plan=False)
    observation, names = read_observation(run)
    folder = solve(Mst(), observation, run, names).folder
    page, _ = page_of(run)
    assert f"Not measured yet: {folder.name}" in " ".join(page.text)


def test_without_a_held_out_part_the_page_warns(tmp_path):
    trace, run = trace_of_sites(tmp_path / "trace"), tmp_path / "run"
    observe(trace, run, Split(train=1))
    replay(run)
    page, text = page_of(run)
    assert page.tiles["traffic cost"] == [measured(run, "before/train").of("cost")]
    assert "Nothing is held out" in text


def test_before_anything_is_measured_the_error_says_what_to_do(tmp_path):
    run = tmp_path / "run"
    observe(trace_of_sites(tmp_path / "trace"), run)
    with pytest.raises(BadTrace, match="overlace replay"):
        write_report(run)


@pytest.mark.parametrize("case", ["mesh", "channels", "nothing"])
def test_without_brokers_the_page_shows_what_there_is(case, tmp_path):
    observations = {"mesh": linked_clients(), "channels": three_publishers(cut=True), "nothing": Observation()}
    run = run_of(tmp_path, observations[case])
    page, text = page_of(run)
    assert "No brokers were observed" in text
    assert 'id="traffic"' not in text
    assert 'id="network"' not in text
    if case != "nothing":
        assert f'id="{case}"' in text
        metric, label = {"mesh": ("average_degree", "links per client"), "channels": ("received", "messages received")}[
            case
        ]
        assert page.tiles[label] == [measured(run).of(metric)]


def test_one_broker_crosses_nothing(tmp_path):
    run = run_of_sites(tmp_path, regions=1, per_region=1, plan=False)
    page, text = page_of(run)
    assert page.tiles["traffic cost"] == [0]
    assert page.tiles["deliveries at one broker"] == [1]
    assert 'id="network"' not in text


def test_a_plan_may_build_the_first_tree(tmp_path):
    run = run_of_sites(tmp_path, wired=False)
    page, text = page_of(run)
    after = measured(run, f"{plan_of(run)}/held-out")
    assert page.tiles["traffic cost"] == [after.of("cost")]
    assert "not linked today" in text
    assert 'id="traffic"' not in text
    assert 'id="network"' in text


def test_the_backbone_is_called_so(tmp_path):
    writer = Writer(trace_of_sites(tmp_path / "trace"), Trace.open(str(tmp_path / "trace")))
    brokers = [(b, -1 if b < 2 else b // 2, None, None, 1.0, None, None, None) for b in range(6)]
    writer.write("brokers", table_of("brokers", brokers), name="-again", replace=True)
    writer.commit(bucket_us=HOUR_US, unit="gb", notes={})
    observe(str(tmp_path / "trace"), tmp_path / "run")
    replay(tmp_path / "run")
    page, text = page_of(tmp_path / "run")
    assert page.tables["Deliveries between regions"][0][0] == "backbone"
    assert "within backbone" in text
    assert "GB × price of links" in text


@pytest.mark.parametrize(("regions", "per_region"), [(40, 1), (50, 1), (4, 12), (8, 5), (48, 2)])
def test_a_large_overlay_is_drawn_with_few_marks(regions, per_region, tmp_path):
    run = run_of_sites(tmp_path, regions=regions, per_region=per_region, clients=200)
    page, text = page_of(run)
    for panel in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        marks = re.findall(r'class="mark" cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"', panel)
        assert len(marks) <= MOST_MARKS
        x, y, r = np.array(marks, dtype=float).reshape(-1, 3).T
        apart = np.hypot(x[:, None] - x, y[:, None] - y) - r[:, None] - r
        assert (apart[~np.eye(len(x), dtype=bool)] > 0).all()
    assert len(page.tables["Brokers"]) == MOST_ROWS
    assert "more brokers" in text
    if regions > 11:
        assert f"{regions - 10} others" in text
