"""Drift on a case small enough to count by hand.

Brokers a, hub and b stand in a row, each link costs 1. When the plan is made, p at a sends q at b 60 messages over two
links, s sends t 40 within a, v at a sends w at b 40: 200 in all. Everybody but p is kept, so the plan moves p to b;
what v sends is left: 80.
"""

import json
import os
import signal
import sys

import numpy as np
import pytest

from overlace.cli import main
from overlace.errors import BadTrace, Unknown
from overlace.limits import Split
from overlace.optimize.drift import drift
from overlace.optimize.plan import solve
from overlace.optimize.task import observe
from overlace.planners.joint.joint import Joint
from overlace.trace.plans import load_plan
from overlace.trace.runs import read_observation
from overlace.trace.store import HOUR_US
from overlace.verbs import optimize
from tests.optimize.asking import options_of
from tests.processes import LONGEST, command, until
from tests.traces import trace_of

A, B, HUB = range(3)
P, Q, S, T, V, W, N = range(7)
NAMES = {"broker": ["a", "b", "hub"], "client": ["p", "q", "s", "t", "v", "w", "n"]}
HOMES = {P: A, Q: B, S: A, T: A, V: A, W: B}
THEN = [(P, Q, 60), (S, T, 40), (V, W, 40)]
NOW = [(P, Q, 30), (S, T, 40), (N, Q, 30)]
ROW = [(A, HUB, True), (B, HUB, True), (A, B, False)]
KEEP = ("q", "s", "t", "v", "w")


def tables_of(homes=HOMES, links=ROW):
    left, right, wired = zip(*links, strict=True)
    made = {"brokers": {"broker": range(3), "region": [0, 0, 0], "cost": [1.0] * 3}}
    if links:
        made["links"] = {"left": left, "right": right, "cost": [1.0] * len(links), "wired": wired}
    if homes:
        made["sessions"] = {"client": list(homes), "broker": list(homes.values())}
    return made


def make(path, sent, homes=HOMES, links=ROW, names=NAMES):
    """A trace of (sender, receiver, how many), a message an hour or more."""
    messages = [(i % 48 * HOUR_US, who, 0, 100, [to]) for who, to, count in sent for i in range(count)]
    trace_of(path, messages, names, **tables_of(homes, links))
    return str(path)


@pytest.fixture
def run(tmp_path):
    """A run whose plan moves p to b and changes no link."""
    trace = make(tmp_path / "trace", THEN, names={**NAMES, "client": NAMES["client"][:N]})
    options = options_of(placement="anywhere", train=1, keep=KEEP, max_swaps=0, sent_cap=0, handled_cap=0, effort=0)
    optimize(trace, tmp_path / "run", *options)
    return tmp_path / "run"


@pytest.fixture
def newer(tmp_path):
    """A newer trace, clients in another order; n, whom the plan never saw, is at the hub."""
    order = [N, W, V, T, S, Q, P]
    names = {**NAMES, "client": [NAMES["client"][c] for c in order]}

    def made(sent=NOW, homes=None, name="newer", links=ROW):
        homes = {**HOMES, N: HUB} if homes is None else homes
        turned = [(order.index(who), order.index(to), count) for who, to, count in sent]
        placed = {order.index(c): b for c, b in homes.items()}
        return make(tmp_path / name, turned, placed, links, names)

    return made


def test_what_was_promised_and_what_is_seen(run, newer):
    found = drift(run, newer())
    assert found.predicted == pytest.approx(1 - 80 / 200)
    assert found.before == 30 * 2 + 30 * 1  # p to q over two links, n to q over one
    assert found.after == 30 * 1  # p is at b now
    assert found.seen == pytest.approx(2 / 3)


def test_the_share_of_messages_from_clients_that_the_plan_never_saw(run, newer):
    assert drift(run, newer()).unseen == pytest.approx(30 / 100)
    assert drift(run, newer(THEN, name="same")).unseen == 0


def test_clients_that_came_up_only_in_held_out_traffic_are_new_too(tmp_path, newer):
    late = [(47 * HOUR_US, N, 0, 100, [Q])] * 3
    early = [(i % 24 * HOUR_US, who, 0, 100, [to]) for who, to, count in THEN for i in range(count)]
    trace_of(tmp_path / "trace", early + late, NAMES, **tables_of())
    options = options_of(placement="anywhere", train=0.7, min_gain=0, effort=0)
    optimize(str(tmp_path / "trace"), tmp_path / "late", *options)
    assert drift(tmp_path / "late", newer()).unseen == pytest.approx(30 / 100)


def test_loads_are_shares_of_what_is_sent_at_each_broker_then_and_now(run, newer):
    loads = {name: (then, now) for name, then, now in drift(run, newer()).loads}
    assert loads["a"] == pytest.approx((80 / 140, 40 / 100))  # s and v; s
    assert loads["b"] == pytest.approx((60 / 140, 30 / 100))  # p; p
    assert loads["hub"] == pytest.approx((0, 30 / 100))  # n
    assert [name for name, _, _ in drift(run, newer(name="again")).loads] == ["hub", "a", "b"]  # most changed first
    applied = {name: now for name, _, now in drift(run, newer(name="third"), overlay="applied").loads}
    assert applied == pytest.approx({"a": 70 / 100, "b": 0, "hub": 30 / 100})  # p is still at a


def test_planning_again_saves_what_the_newcomer_costs(run, newer):
    """Everybody else is kept: on the second day n to b saves its 6, of 6 or of 6 and the 63 that v sends then."""
    assert drift(run, newer()).again == pytest.approx(1)
    more = drift(run, newer([*NOW, (V, W, 135)], name="more"))
    assert more.again == pytest.approx(6 / (6 + 2 * 63))
    assert more.min_gain == 0.01


def test_what_was_applied_is_what_the_newer_trace_shows(run, newer):
    found = drift(run, newer(), overlay="applied")  # p has not moved
    assert (found.before, found.after, found.seen) == (90, 90, 0)
    assert found.again == pytest.approx(1)  # p and n both to b
    elsewhere = drift(run, newer(homes={**HOMES, P: HUB, N: HUB}, name="elsewhere"), overlay="applied")
    assert (elsewhere.before, elsewhere.after) == (90, 60)
    carried_out = drift(run, newer(homes={**HOMES, P: B, N: HUB}, name="done"), overlay="applied")
    assert carried_out == drift(run, newer(homes={**HOMES, P: B, N: HUB}, name="as-planned"))._replace(
        overlay="applied"
    )


@pytest.mark.parametrize(("home", "where"), [(A, (0, 1, 0)), (B, (1, 0, 0)), (HUB, (0, 0, 1)), (None, (0, 0, 0))])
def test_how_much_of_the_plan_is_in_place(run, newer, home, where):
    homes = {c: b for c, b in {**HOMES, P: home, N: HUB}.items() if b is not None}
    for overlay in ("planned", "applied"):
        found = drift(run, newer(homes=homes, name=overlay), overlay=overlay).in_place
        assert (found.moves, found.at_planned, found.at_old, found.elsewhere) == (1, *where)
        assert found.seen_again == sum(where)
        assert (found.links, found.links_as_planned, found.links_known) == (0, 0, True)


def test_a_client_without_a_session_is_where_the_run_had_it(run, newer):
    homes = {c: b for c, b in {**HOMES, N: HUB}.items() if c != P}
    assert drift(run, newer(homes=homes), overlay="applied").after == 90


def test_links_that_are_in_place(tmp_path, newer):
    """All clients are kept: the plan wires a-b in place of a-hub or hub-b, which saves a link to each message."""
    trace = make(tmp_path / "trace", THEN)
    options = options_of(train=1, max_moves=0, allow_link=("a:b",), sent_cap=0, handled_cap=0, effort=0)
    (part,) = optimize(trace, tmp_path / "run", *options).verdicts
    after = load_plan(part.folder, {"joint": Joint}).after.tree.tolist()
    assert [A, B] in after
    other = [A, HUB] if [B, HUB] in after else [B, HUB]
    shown = {
        "before": ([[A, HUB], [B, HUB]], 0, 30 * 2 + 30 * 1),
        "after": (after, 1, 30 * 1 + 30 * (1 if [B, HUB] in after else 2)),
        "half": ([[A, B], other], 0, 30 * 1 + 30 * (1 if other == [B, HUB] else 2)),
    }
    for name, (wired, done, cost) in shown.items():
        links = [(left, right, [left, right] in wired) for left, right, _ in ROW]
        found = drift(tmp_path / "run", newer(links=links, name=name), overlay="applied")
        assert (found.in_place.links, found.in_place.links_as_planned) == (1, done)
        assert (found.in_place.moves, found.in_place.seen_again) == (0, 0)
        assert (found.before, found.after) == (90, cost)


def test_a_link_that_only_the_newer_trace_has_costs_what_that_says(tmp_path, newer):
    trace = make(tmp_path / "trace", THEN, links=ROW[:2])
    options = options_of(placement="anywhere", train=1, keep=KEEP, sent_cap=0, handled_cap=0, effort=0)
    optimize(trace, tmp_path / "run", *options)
    found = drift(tmp_path / "run", newer(links=[(A, HUB, False), (B, HUB, True), (A, B, True)]), overlay="applied")
    assert (found.before, found.after) == (90, 30 * 1 + 30 * 1)


def test_applied_is_refused_where_the_newer_trace_does_not_show_it(run, newer):
    bare = newer(homes={}, name="bare")
    with pytest.raises(BadTrace, match="shows no sessions, so the overlay as applied is not known"):
        drift(run, bare, overlay="applied")
    assert drift(run, bare).in_place.seen_again == 0
    unwired = newer(links=[(a, b, False) for a, b, _ in ROW], name="unwired")
    with pytest.raises(BadTrace, match="shows no wired links, so"):
        drift(run, unwired, overlay="applied")
    assert not drift(run, unwired).in_place.links_known
    with pytest.raises(BadTrace, match="no sessions and no wired links"):
        drift(run, newer(homes={}, links=[(a, b, False) for a, b, _ in ROW], name="none"), overlay="applied")
    with pytest.raises(Unknown, match="no overlay is called 'aplied'"):
        drift(run, bare, overlay="aplied")


def test_a_newer_trace_without_messages_is_refused(run, newer):
    with pytest.raises(BadTrace, match="holds no messages"):
        drift(run, newer([]))


def test_a_plan_that_was_not_judged_is_measured_by_what_its_planner_lowers(tmp_path, newer):
    observe(make(tmp_path / "trace", THEN), tmp_path / "run", Split(train=1))
    observation, names = read_observation(tmp_path / "run")
    keep = (Q, S, T, V, W)
    for planner, metric in (
        (Joint(keep=keep, max_swaps=0, sent_cap=None, handled_cap=None), "cost"),
        (Joint(keep=keep, objective="messages", weight="bytes", sent_cap=None, handled_cap=None), "link_bytes"),
        (Joint(keep=keep, objective="hops", sent_cap=None, handled_cap=None), "mean_broker_hops"),
    ):
        made = solve(planner, observation, tmp_path / "run", names)
        found = drift(tmp_path / "run", newer(THEN, name=metric), made.folder.name)
        assert found.metric == metric
        assert found.predicted == pytest.approx(found.seen)
        assert found.min_gain == 0.01


@pytest.fixture
def overlace(monkeypatch, capsys):
    """Run a command as a user would: (exit code, standard output, standard error)."""

    def command(*words):
        monkeypatch.setattr(sys, "argv", ["overlace", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return left.value.code or 0, said.out, " ".join(said.err.split())

    return command


def test_the_command_says_what_was_found_and_leaves_with_3_where_nothing_should_be_done(run, newer, overlace):
    code, out, _ = overlace("drift", run, newer())
    assert code == 0
    assert "60.0% less was promised, 66.7% less is seen with the overlay as planned (cost 90 -> 30)" in out
    assert "of the plan, 0 of 1 moves are in place (1 at the old broker)" in out
    assert "30.0% of the messages come from newcomers: clients without traffic when the plan was made" in out
    quiet = newer(THEN, name="quiet")  # no newcomer: as planned there is nothing left, as applied p has yet to move
    code, out, err = overlace("drift", run, quiet)
    assert code == 3
    assert "error" not in err
    assert "would save 0.0% of the rest, less than 1.0%: leave it as it is" in out
    code, out, _ = overlace("drift", run, quiet, "--overlay", "applied", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["plan_again"]
    assert document["again"] == pytest.approx(1 - 80 / 200)
    assert document["overlay"] == "applied"
    assert document["in_place"] == {
        "moves": 1, "at_planned": 0, "at_old": 1, "elsewhere": 0, "links": 0, "links_as_planned": 0,
        "links_known": True,
    }  # fmt: skip
    assert overlace("drift", run, quiet, "--overlay", "applied", "--min-gain", "0.7")[0] == 3
    assert overlace("drift", run, quiet, "--overlay", "nosuch")[0] == 2


def test_a_trace_that_grows_is_followed_until_the_plan_holds_no_more(run, newer, tmp_path):
    def put(sent, name):
        """In its place at once, as a commit puts a manifest; what is read is still there."""
        os.symlink(newer(sent, name=name), tmp_path / f"link-{name}")
        os.rename(tmp_path / f"link-{name}", tmp_path / "grown")

    said = tmp_path / "said"
    with said.open("w") as out:
        process = command("drift", run, tmp_path / "grown", "--follow", "--every", "50ms", stdout=out, stderr=out)
    try:
        until(lambda: "grown is no trace yet. Waiting for it." in said.read_text())
        put([], "empty")
        until(lambda: "so there is nothing to replay. Waiting for it." in said.read_text())
        for name, sent, text in (
            ("quiet", THEN, "it holds: "),
            ("loud", NOW, "it does not hold any more: planning again"),
        ):
            put(sent, name)
            until(lambda text=text: text in said.read_text() or process.poll() is not None)
            assert process.poll() is None, said.read_text()
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(LONGEST) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert said.read_text().count("less was promised") == 2


def test_an_overlay_that_costs_more_than_before_is_said_and_not_left_as_it_is(run, newer, overlace):
    """p now talks to s at a, so b is the wrong home: going back pays, and so does planning again."""
    back = newer([(P, S, 50), (V, W, 25)], homes={**HOMES, P: B})
    for overlay in ("planned", "applied"):
        code, out, _ = overlace("drift", run, back, "--overlay", overlay)
        assert code == 0
        assert f"200.0% more is seen with the overlay as {overlay} (cost 50 -> 150)" in out
        assert f"the overlay as {overlay} costs more than what was there before" in out
        assert "of the plan, 1 of 1 moves are in place" in out


def test_shares_of_all_brokers_add_up(run, newer):
    for overlay in ("planned", "applied"):
        found = drift(run, newer(name=overlay), overlay=overlay)
        assert np.sum([each[1:] for each in found.loads], axis=0) == pytest.approx([1, 1])
