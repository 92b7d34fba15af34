"""A damaged plan file is refused in one line, or means what it meant."""

import copy
import hashlib
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.catalog import PLANNERS
from overlace.cli.plans import plan_lines
from overlace.errors import BadPlan, OverlaceError
from overlace.optimize.words import Units, lines
from overlace.planners.channels.strategy4 import Strategy4
from overlace.planners.joint.joint import Joint
from overlace.planners.mesh.td_cd_oda import TdCdOda
from overlace.planners.tree.baselines import Mst
from overlace.report.curve import gain_curve
from overlace.report.naming import Naming
from overlace.testing import three_publishers
from overlace.trace.judgement import Judgement, Measure, Point
from overlace.trace.plan_tables import read_tables
from overlace.trace.plans import cut_plan, load_plan, plan_difference, read_plan
from overlace.workloads.square import square
from reproductions.workloads.uniform_interests import uniform_interests
from tests.trace.test_plans import judge
from tests.traces import write_plan as write

SQUARE = square(9, 20, 30, seed=1)
TABLES = ("after.parquet", "changes.parquet", "steps.parquet")
MADE = {
    "tree.mst": (Mst(beta=0.5), SQUARE, {"broker": "oslo rome paris bern kiev riga wien porto lyon".split()}),
    "joint": (Joint(), SQUARE, None),
    "channels.strategy-4": (Strategy4(), three_publishers(cut=True), None),
    "mesh.td-cd-oda": (TdCdOda(), uniform_interests(8, 5, 3), None),
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """A folder with a plan of each facet; the first one is judged."""
    folder = tmp_path_factory.mktemp("plans")
    for name, (planner, observation, names) in MADE.items():
        write(planner.solve(observation), folder / name, name, observation, names)
    cost, plan = read_plan(folder / "tree.mst").cost_before, load_plan(folder / "tree.mst", PLANNERS)
    points = [
        Point(steps=k, moves=0, links=k, own_cost=cost - float(plan.steps.gain[:k].sum()), metrics={"cost": 9.0 - k})
        for k in range(len(plan.steps) + 1)
    ]
    measures = [Measure(metric="cost", part="train", before=9.0, after=3.0)]
    about = {"train": [0, 5], "held_out": [5, 9], "objective": "cost", "limits": {"min_gain": 0.01}, "saving": None}
    judge(folder / "tree.mst", Judgement(**about, metrics=measures, curve=points))
    return folder


def sealed(document):
    """The digest anew, as somebody would who alters a plan file on purpose."""
    plain = json.dumps({**document, "digest": ""}, sort_keys=True)
    return {**document, "digest": hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()}


def use(folder, steps=1):
    """All that is done with a plan."""
    document = read_plan(folder, PLANNERS)
    plan = load_plan(folder, PLANNERS)
    assert all(plan.why(i) for i in range(len(plan.steps)))
    assert plan_lines(document)
    assert lines(document, Units())
    gain_curve("plan", document, Naming())
    plan_difference(folder, folder)
    cut_plan(folder, min(steps, document.steps_total), folder.with_name("cut"), force=True)
    read_plan(folder.with_name("cut"), PLANNERS)
    return document, plan


def agree(folder, document):
    """What plan.json says is what the columns give, counted by hand."""
    changes = pq.read_table(folder / "changes.parquet").to_pylist()
    steps = pq.read_table(folder / "steps.parquet").to_pylist()
    added = [sum(row["action"] > 0 for row in changes if row["step"] == i) for i in range(len(steps))]
    assert document.changes_total == len(changes)
    assert document.steps_total == len(steps) == len(document.steps)
    assert document.peak_reconnects == max(added, default=0)
    assert [line.reconnects for line in document.steps] == added
    assert [line.gain for line in document.steps] == [row["gain"] for row in steps]
    saved = sum(row["gain"] for row in steps)
    assert document.cost_before - document.cost_after == pytest.approx(saved, rel=1e-5, abs=1e-5)
    listed = [(line, row) for line, row in zip((c for s in document.steps for c in s.changes), changes, strict=True)]
    for line, row in listed:
        assert (line.facet, line.action) == (row["facet"], "add" if row["action"] > 0 else "remove")
    for end in ("left", "right"):
        called = {(row["facet"], row[end]): getattr(line, end) for line, row in listed}
        assert all(called[row["facet"], row[end]] == getattr(line, end) for line, row in listed)
    for step in document.steps:
        back = [(c.facet, "remove" if c.action == "add" else "add", c.left, c.right) for c in step.changes[::-1]]
        assert [(c.facet, c.action, c.left, c.right) for c in step.inverse] == back
    for point in document.judged.curve if document.judged else ():
        rows = [row for row in changes if row["step"] < point.steps]
        assert point.steps <= len(steps)
        assert point.links == sum(row["facet"] == "tree" and row["action"] > 0 for row in rows)


values = st.one_of(
    st.integers(-3, 9),
    st.sampled_from([2**31, 2**63, -(2**63), 10**40, 1e308, -0.0, 0.5, float("nan"), float("inf"), -float("inf")]),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=3),
    st.sampled_from(["add", "remove", "tree", "mesh", "b3", "\ud800", "a\nb", "[red]", []]),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(0, 3), max_size=2),
)


def places(node, at=()):
    """Every place in a document."""
    yield at
    if isinstance(node, dict | list):
        for key, each in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(each, (*at, key))


def damage(draw, document):
    """The document with one thing changed."""
    made = copy.deepcopy(document)
    *way, last = draw(st.sampled_from([place for place in places(document) if place]))
    held = made
    for key in way:
        held = held[key]
    how = draw(st.sampled_from("replace nudge drop again unknown swap".split()))
    if how == "nudge" and type(held[last]) in (int, float):
        held[last] += draw(st.sampled_from([-1, 1, 0.25]))
    elif how == "drop":
        del held[last]
    elif how == "again" and isinstance(held, list):
        held.insert(last, copy.deepcopy(held[last]))
    elif how == "unknown" and isinstance(held, dict):
        held[draw(st.text(max_size=3))] = draw(values)
    elif how == "swap" and isinstance(held, list):
        held[last], held[0] = held[0], held[last]
    else:
        held[last] = draw(values)
    return made


def copied(plans, name):
    folder = plans / "copies" / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(plans / name, folder)
    return folder


def one_line(error):
    assert len(str(error).splitlines()) == 1
    assert len(str(error)) < 2000


@given(st.data(), st.sampled_from(sorted(MADE)))
def test_a_plan_file_with_one_thing_changed_is_refused_or_means_the_same(plans, data, name):
    folder = copied(plans, name)
    original = read_plan(folder)
    document = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(damage(data.draw, document)))
    try:
        found, _ = use(folder)
    except OverlaceError as error:
        one_line(error)
    else:
        assert found == original


@given(st.data(), st.sampled_from(sorted(MADE)))
def test_a_plan_file_changed_and_sealed_again_still_says_what_its_columns_give(plans, data, name):
    folder = copied(plans, name)
    document = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(sealed(damage(data.draw, document))))
    try:
        found, _ = use(folder)
    except OverlaceError as error:
        one_line(error)
    else:
        agree(folder, found)


def damaged_table(draw, table):
    """A table with one thing changed."""
    how = draw(st.sampled_from("value value value column rows type null unknown twice".split()))
    name = draw(st.sampled_from(table.column_names))
    at, rows = table.column_names.index(name), table[name].to_pylist()
    if how == "column":
        return table.drop_columns([name])
    if how == "rows":
        return table.slice(draw(st.integers(0, 1)), max(table.num_rows - draw(st.integers(0, 2)), 0))
    if how == "type":
        kind = draw(st.sampled_from([pa.float64(), pa.string(), pa.int32(), pa.list_(pa.int64())]))
        try:
            return table.set_column(at, name, pa.array(rows, kind))
        except (pa.ArrowException, TypeError):
            return table.set_column(at, name, pa.nulls(len(rows), kind))
    if how == "unknown":
        return table.append_column(draw(st.sampled_from(["colour", "arg_x", "gain"])), table[name])
    if how == "twice":
        return pa.concat_tables([table, table])
    row = draw(st.integers(0, max(len(rows) - 1, 0)))
    if rows and how == "null":
        rows[row] = None
    elif rows:
        few = st.sampled_from([-1, 0, 1, 2, 7, 99, 2**31, 2**62, -(2**63)])
        text = st.sampled_from(["tree", "mesh", "placement", "channels", "colour", ""])
        rows[row] = draw(text if name == "facet" else st.integers(-2, 2) if name == "action" else few)
    if pa.types.is_floating(table.schema.field(name).type):
        rows = [each if each is None else float(each) for each in rows]
        if rows and draw(st.booleans()):
            rows[row] = draw(st.floats())
    return table.set_column(at, name, pa.array(rows, table.schema.field(name).type))


@settings(max_examples=60)
@given(st.data(), st.sampled_from(sorted(MADE)), st.sampled_from(TABLES), st.booleans())
def test_a_table_with_one_thing_changed_is_refused_or_agrees(plans, data, name, table, again):
    """With the digests written anew (`again`), as somebody would who alters a plan on purpose, or left as they were."""
    folder = copied(plans, name)
    original = load_plan(folder, PLANNERS)
    pq.write_table(damaged_table(data.draw, pq.read_table(folder / table)), folder / table)
    try:
        if again:
            after, columns = read_tables(folder)
            document = json.loads((folder / "plan.json").read_text())
            document |= {"after": after.digest(), "columns": columns.digest()}
            document["before"] = after.apply(columns.changes.inverse()).digest()
            (folder / "plan.json").write_text(json.dumps(sealed(document)))
        found, plan = use(folder)
    except OverlaceError as error:
        one_line(error)
    else:
        agree(folder, found)
        assert again or plan == original


@settings(max_examples=60)
@given(st.data(), st.sampled_from(sorted(MADE)), st.sampled_from(("plan.json", *TABLES)))
def test_bytes_lost_or_changed_are_refused_or_mean_the_same(plans, data, name, file):
    folder = copied(plans, name)
    original, plan = read_plan(folder), load_plan(folder, PLANNERS)
    held = bytearray((folder / file).read_bytes())
    at = data.draw(st.integers(0, len(held) - 1))
    if data.draw(st.booleans()):
        held = held[:at]
    else:
        held[at] ^= 1 << data.draw(st.integers(0, 7))
    (folder / file).write_bytes(bytes(held))
    try:
        assert use(folder) == (original, plan)
    except OverlaceError as error:
        one_line(error)


def beyond(document):
    document["judged"]["curve"][-1]["steps"] = 99


def renamed(document):
    document["steps"][1]["changes"][0]["left"] = "nowhere"


def fewer(document):
    document["steps"].pop()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(steps_total=7), "plan.json: steps_total: 7, but the columns give 6"),
        (lambda d: d.update(changes_total=0), "changes_total: 0, but the columns give 12"),
        (lambda d: d.update(changes_total=-1), "changes_total: Input should be greater than or equal to 0"),
        (lambda d: d.update(peak_reconnects=5), "peak_reconnects: 5, but the columns give 1"),
        (lambda d: d.update(cost_after=0.0), "cost_after: 0.0, but the gains of the columns give"),
        (lambda d: d.update(seed=2**70), "seed: Input should be less than"),
        (lambda d: d.update(seed="1"), "seed: Input should be a valid integer"),
        (lambda d: d.update(steps_total=6.0), "steps_total: Input should be a valid integer"),
        (lambda d: d.update(window=[5, 1]), "window: .*before it begins"),
        (lambda d: d.update(facets=["placement"]), "facets: placement, but the columns change tree"),
        (lambda d: d.update(before="0" * 32), "before: 0+, but the columns give"),
        (lambda d: d["parameters"].update(colour=1), "parameters.colour: not known"),
        (lambda d: d["parameters"].update(beta="x"), "parameters.beta: Input should be a valid number"),
        (lambda d: d["parameters"].update(beta=-1), "beta is -1"),
        (lambda d: d.pop("columns"), "columns: Field required"),
        (lambda d: d.update(schema_version=4), "schema version 4"),
        (lambda d: d["steps"][0].update(gain=1e9), r"steps.0.gain: 1000000000.0, but the columns give"),
        (lambda d: d["steps"][0].update(more=1), "steps.0.more: 1, but the columns give 0"),
        (lambda d: d["steps"][0].update(reconnects=0), "steps.0.reconnects: 0, but the columns give 1"),
        (lambda d: d["steps"][0]["changes"].pop(), "steps.0.changes: 1 changes, but the columns give 2 changes"),
        (lambda d: d["steps"][0]["inverse"].reverse(), "steps.0.inverse.0.action: add, but the columns give remove"),
        (fewer, "steps: 5 steps, but the columns give 6 steps"),
        (renamed, "steps.1.*: broker . is called '.*' here and '.*' before"),
        (beyond, "judged.curve.6.steps: 99 of 6 steps"),
    ],
)  # fmt: skip
def test_what_a_plan_file_says_differently_is_named_by_its_field(plans, change, says):
    folder = copied(plans, "tree.mst")
    document = json.loads((folder / "plan.json").read_text())
    change(document)
    (folder / "plan.json").write_text(json.dumps(sealed(document)))
    with pytest.raises(OverlaceError, match=says) as refused:
        read_plan(folder, PLANNERS)
    one_line(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"schema_version": 3, "seed": 1, "seed": 2}', "the key 'seed' stands twice"),
        ('{"schema_version": 3, "seed": NaN}', "NaN is no finite number"),
        ('{"schema_version": 3, "cost_before": 1e999}', "1e999 is no finite number"),
        ('{"schema_version": 3, "seed": ' + "9" * 5000 + "}", "cannot be read as JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"schema_version": 3, "parameters": ' + '{"a":' * 900 + "1" + "}" * 901, "plan.json"),
        ("[]", "expected a JSON object, found list"),
        ('{"schema_version": 3', "cannot be read as JSON"),
        ("", "cannot be read as JSON"),
    ],
)
def test_what_is_no_plan_file_is_said_in_a_line(tmp_path, text, says):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(OverlaceError, match=says) as refused:
        read_plan(tmp_path)
    one_line(refused.value)


def test_a_folder_in_place_of_a_file_is_said(plans):
    for name in ("plan.json", *TABLES):
        folder = copied(plans, "tree.mst")
        (folder / name).unlink()
        (folder / name).mkdir()
        with pytest.raises(OverlaceError, match=name) as refused:
            read_plan(folder)
        one_line(refused.value)


def test_a_plan_that_names_what_the_observation_does_not_have_is_refused(plans):
    smaller = square(9, 20, 30, seed=2)
    assert load_plan(plans / "tree.mst", PLANNERS, SQUARE).before == SQUARE.overlay
    with pytest.raises(BadPlan, match="was made from another observation"):
        load_plan(plans / "tree.mst", PLANNERS, smaller)
    folder = copied(plans, "tree.mst")
    changes = pq.read_table(folder / "changes.parquet").to_pydict()
    new = max(i for i, action in enumerate(changes["action"]) if action > 0)
    after = pq.read_table(folder / "after.parquet").to_pydict()
    row = list(zip(after["left"], after["right"], strict=True)).index((changes["left"][new], changes["right"][new]))
    for table, at in ((changes, new), (after, row)):
        table["right"][at] = 10**12
    pq.write_table(pa.table(changes), folder / "changes.parquet")
    pq.write_table(pa.table(after), folder / "after.parquet")
    overlay, columns = read_tables(folder)
    document = json.loads((folder / "plan.json").read_text())
    document |= {"after": overlay.digest(), "columns": columns.digest()}
    for step in document["steps"]:
        for change in (*step["changes"], *step["inverse"]):
            change |= {"left": "x", "right": "x"}
    (folder / "plan.json").write_text(json.dumps(sealed(document)))
    with pytest.raises(BadPlan, match="after.parquet: tree: broker 1000000000000 does not exist; there are 9"):
        load_plan(folder, PLANNERS, SQUARE)


@pytest.mark.parametrize("reason", [len(Mst.REASONS), 7, ~len(Mst.REASONS), -9])
def test_a_reason_that_the_planner_does_not_have_is_refused(plans, reason):
    folder = copied(plans, "tree.mst")
    steps = pq.read_table(folder / "steps.parquet")
    rows = [reason, *steps["reason"].to_pylist()[1:]]
    at = steps.column_names.index("reason")
    pq.write_table(steps.set_column(at, "reason", pa.array(rows, pa.int64())), folder / "steps.parquet")
    document = json.loads((folder / "plan.json").read_text())
    document["columns"] = read_tables(folder)[1].digest()
    (folder / "plan.json").write_text(json.dumps(sealed(document)))
    with pytest.raises(BadPlan, match=f"step 1 has reason {reason}; the planner has {len(Mst.REASONS)}"):
        read_plan(folder, PLANNERS)


@pytest.mark.parametrize("value", [5e-324, 1e308, -1e308, 0.0, -1.0])
@pytest.mark.parametrize("point", [0, 3, -1])
def test_a_curve_of_any_finite_numbers_can_be_drawn(plans, value, point):
    folder = copied(plans, "tree.mst")
    document = json.loads((folder / "plan.json").read_text())
    document["judged"]["curve"][point]["metrics"]["cost"] = value
    (folder / "plan.json").write_text(json.dumps(sealed(document)))
    assert use(folder)
