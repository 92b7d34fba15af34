"""What is planned for is chosen inside the training window; newcomers go by a rule; what is promised is said first."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest

from overlace.cli.main_job import full_text
from overlace.optimize.forecast import Forecast
from overlace.optimize.interval import expect_saving
from overlace.optimize.newcomers import NewClientRule, describe_rule
from overlace.optimize.replay import replay
from overlace.optimize.result import NoChangeRecommended
from overlace.planners.joint.joint import Joint
from overlace.trace.plan_file import PLAIN_SUMS
from overlace.trace.plans import read_columns, read_plan
from overlace.trace.runs import read_observation
from overlace.trace.store import DAY_US, HOUR_US
from overlace.trace.tables import TIME
from overlace.verbs import optimize
from tests.optimize.asking import options_of
from tests.traces import FROM_LOGS, trace_of

BROKERS = ["a", "b", "c", "d"]
TABLES = {
    "brokers": {"broker": range(4), "region": [0, 0, 1, 1], "cost": [1.0] * 4},
    "links": {"left": [0, 1, 2], "right": [1, 2, 3], "cost": [1.0] * 3, "wired": [True] * 3},
}
ENDS = [0, 0, 0, 3, 3, 3] * 2
FREE = {"placement": "anywhere", "sent_cap": 0, "handled_cap": 0, "effort": 0, "max_swaps": 0, "min_gain": 0}


def system(path, talk, clients, days=21, homes=None):
    """A trace: talk(day, rng) gives the (sender, receiver) pairs of a day, spread over its hours."""
    rng, messages = np.random.default_rng(3), []
    for day in range(days):
        for i, (a, b) in enumerate(talk(day, rng)):
            messages.append((day * DAY_US + i % 24 * HOUR_US + i, a, 0, 10, [b]))
    home = [c % 4 for c in range(clients)] if homes is None else homes
    names = {"client": [f"c{i:02d}" for i in range(clients)], "broker": BROKERS, "region": ["x", "y"]}
    sessions = {"client": range(clients), "broker": home}
    return str(trace_of(path, messages, names, **TABLES, sessions=sessions).path)


def turning(day, rng):
    """Until day 9 the first six talk much, then the last six, with those across."""
    if day < 9:
        return [(i, 3 + i) for i in range(3) for _ in range(12)]
    return [(6 + i, 9 + i) for i in range(3) for _ in range(6)]


def test_what_was_said_lately_counts_more_where_traffic_has_changed(tmp_path):
    trace = system(tmp_path / "t", turning, 12, homes=ENDS)
    found = {
        kind: optimize(trace, tmp_path / kind, *options_of(**FREE, max_moves=3, forecast=kind)).verdicts[0]
        for kind in ("chosen", "plain")
    }
    chosen, plain = found["chosen"], found["plain"]
    assert chosen.document.forecast.half_life_days is not None
    assert plain.document.forecast is None
    assert chosen.after < plain.after
    assert chosen.folder.name != plain.folder.name
    assert chosen.train < plain.train  # it is not fitted to what was


def test_steps_say_what_they_would_have_saved_and_the_file_holds(tmp_path):
    (part,) = optimize(system(tmp_path / "t", turning, 12, homes=ENDS), tmp_path / "run", *options_of(**FREE)).verdicts
    document = read_plan(part.folder)
    assert document.cost_before - sum(step.gain for step in document.steps) == pytest.approx(document.cost_after)
    judged = document.judged
    share = 1 - document.cost_after / document.cost_before
    assert part.train == pytest.approx(share)
    assert judged.expected.low <= judged.expected.share <= judged.expected.high


def groups(day, rng):
    """Two groups of four; four newcomers early on and four from day 15 on, of each four two for each group."""
    talk = [(i, j) for g in (range(4), range(4, 8)) for i in g for j in g if i != j]
    came = [c for c in range(8, 12) if day >= c] + [c for c in range(12, 16) if day >= 15]
    return talk + [(c, c % 2 * 4 + j) for c in came for j in range(4) for _ in range(3)]


WRONG = [0, 0, 0, 0, 3, 3, 3, 3, *[3, 0] * 4]


def test_newcomers_go_where_their_group_is_and_are_counted_apart(tmp_path):
    trace = system(tmp_path / "t", groups, 16, homes=WRONG)
    found = optimize(trace, tmp_path / "run", *options_of(**FREE))
    (part,) = found.verdicts
    rule, judged = part.document.newcomers, part.document.judged
    assert rule.rule in ("first-contact", "community")
    known, new = judged.apart
    assert (known.before, known.after) == (7 * 4 * 12 * 3, 0)  # those that came early have moved
    assert known.before + new.before == pytest.approx(part.before)
    assert known.after + new.after == pytest.approx(part.after)
    assert new.before == 6 * 4 * 12 * 3  # four of them at the wrong end, three links away
    assert new.after == new.before  # the plan lists no change for those that it never saw
    left = 4 * 3 * 1  # by the rule: the first message of each
    assert judged.newcomers.share == pytest.approx((new.before - left) / part.before)
    assert (judged.newcomers.newcomers, judged.newcomers.elsewhere) == (4, 4)
    lines = "\n".join(full_text(found))
    assert "newcomers: 0.0% less (46% of today's cost), left where they connect" in lines
    saved = f"{judged.newcomers.share:.1%} more of today's cost is saved"
    assert f"the nearest broker below its limits: {saved}; 4 of 4 would have been" in lines
    assert "known clients: 100.0% less" in lines
    assert "forecast: " in lines
    chosen = Forecast(PLAIN_SUMS, tried=24, share=0.29, sums=[np.ones((3, 2))] * 2)
    assert str(chosen) == (
        "plain sums; chosen from 8 half-lives (earlier client totals most like later ones) and 3 shares of community "
        "blocks (best in trial plans on the last 29% of the training window)"
    )
    assert "expected " in lines
    page = found.report.read_text()
    assert "messages with a newcomer" in page
    assert "Clients that are not in the training window: each goes to the broker of the client" in page


def test_replaying_the_run_gives_what_the_plan_was_judged_by(tmp_path):
    trace = system(tmp_path / "t", groups, 16, homes=WRONG)
    (part,) = optimize(trace, tmp_path / "run", *options_of(**FREE)).verdicts
    done = {(each.plan, each.part): each.metrics for each in replay(tmp_path / "run")}
    assert done["", "held-out"].of("cost") == part.before
    assert done[part.folder.name, "held-out"].of("cost") == part.after
    observation, _ = read_observation(tmp_path / "run")
    metrics = done["", "held-out"]
    assert metrics.key[metrics.scope == "client"].max() < observation.clients


def test_the_rule_in_the_file_is_the_one_that_follows_from_the_run(tmp_path):
    trace = system(tmp_path / "t", groups, 16, homes=WRONG)
    (part,) = optimize(trace, tmp_path / "run", *options_of(**FREE)).verdicts
    observation, names = read_observation(tmp_path / "run")
    document = part.document
    after, _ = read_columns(part.folder, document)
    rules = {
        name: describe_rule(NewClientRule(Joint(), observation, name, document.seed), after, names)
        for name in ("first-contact", "community", "region")
    }
    assert [each.rule for each in rules.values()] == list(rules)
    assert rules[document.newcomers.rule] == document.newcomers
    known = after.homes(observation.clients)
    assert set(rules["community"].brokers.values()) <= {BROKERS[h] for h in known.tolist()}
    assert set(rules["region"].brokers) <= {"x", "y"}


def test_what_is_held_out_changes_nothing_that_was_chosen(tmp_path):
    chosen = []
    for name, late in (("a", False), ("b", True)):

        def talk(day, rng, late=late):
            return [(7, 0), (5, 2)] * 9 if late and day >= 15 else turning(day, rng)

        trace = system(tmp_path / name, talk, 12, homes=ENDS)
        options = options_of(**FREE, train_until="1970-01-15")
        try:
            (part,) = optimize(trace, tmp_path / f"run-{name}", *options).verdicts
        except NoChangeRecommended as error:
            (part,) = error.result.verdicts
        document = part.document
        chosen.append((document.forecast, document.newcomers, document.judged.expected, document.after, document.steps))
    assert chosen[0] == chosen[1]


def test_where_nothing_is_held_out_what_is_expected_counts(tmp_path):
    trace = system(tmp_path / "t", turning, 12, homes=ENDS)
    (part,) = optimize(trace, tmp_path / "run", *options_of(**FREE, train=1, max_moves=2)).verdicts
    expected = part.document.judged.expected
    assert part.worth == expected.share != part.saving.share
    least = options_of(**{**FREE, "min_gain": min(1.0, expected.share + 0.01)}, train=1, max_moves=2)
    with pytest.raises(NoChangeRecommended, match="as far as plans from earlier times tell"):
        optimize(trace, tmp_path / "more", *least)


def test_a_gap_is_named_with_its_likely_cause(tmp_path):
    def talk(day, rng):
        return ([(0, 2), (1, 3), (8, 0)] if day >= 14 else [(0, 4), (1, 5), (2, 3)]) * 12

    trace = system(tmp_path / "t", talk, 9, homes=[0, 0, 0, 0, 3, 3, 3, 3, 1])
    options = options_of(**FREE, only=("c00", "c01"))
    try:
        found = optimize(trace, tmp_path / "run", *options)
    except NoChangeRecommended as error:
        found = error.result
    (note,) = [each for each in found.notes if "Likely why" in each]
    assert note.startswith("700.0% more is paid on held-out traffic where 100.0% less was in the training window")
    assert "for messages with a client that had no traffic then" in note
    assert "100% of the deliveries between known clients are between two that had not talked then" in note
    assert note in json.loads((tmp_path / "run" / "answer.json").read_text())["notes"]


def test_stretches_that_differ_make_a_wide_interval_and_none_makes_none():
    assert expect_saving([]) is None
    assert expect_saving([np.zeros((3, 2))]) is None
    same = expect_saving([np.array([[10.0, 6.0]] * 8)] * 2)
    assert (same.share, same.low, same.high, same.origins) == (pytest.approx(0.4),) * 3 + (2,)
    apart = expect_saving([np.array([[10.0, 6.0]] * 8), np.array([[10.0, 8.0]] * 8)])
    assert apart.share == pytest.approx(0.3)
    # eight shares, four of .4 and four of .2: 2.365 x .1069 x sqrt(9 / 8) either way
    assert apart.share - apart.low == pytest.approx(2.3646 * 0.1069 * np.sqrt(9 / 8), rel=1e-3)
    assert expect_saving([np.array([[10.0, 2.0]])]).high == 1.0
    # a slice is of the stretch that its middle lies in: shares of 0, 1, 0 and 1; 3.182 x .5774 x sqrt(5 / 4)
    alternating = expect_saving([np.array([[3.0, 3.0], [1.0, 0.0], [1.0, 1.0], [3.0, 0.0]])])
    assert (alternating.share, alternating.low) == (
        0.5,
        pytest.approx(0.5 - 3.1824 * 0.57735 * np.sqrt(1.25), rel=1e-3),
    )


LATE = [f"c{i}" for i in range(12, 16)]


@pytest.mark.parametrize(
    "asked",
    [{"keep": tuple(LATE)}, {"keep": ("c*",)}, {"only": ("c00",)}, {"budget": 0}, {"max_moves": 0}],
    ids=["kept", "all kept", "others only", "no budget", "no moves"],
)
def test_who_stays_stays_known_or_not(asked, tmp_path):
    """Newcomers whom the user keeps, or who may not move, are paid for as today."""
    trace = system(tmp_path / "t", groups, 16, homes=WRONG)
    try:
        (part,) = optimize(trace, tmp_path / "run", *options_of(**FREE | asked)).verdicts
    except NoChangeRecommended as error:
        (part,) = error.result.verdicts
    judged = part.document.judged
    assert judged.newcomers is None or (judged.newcomers.share, judged.newcomers.elsewhere) == (0, 0)
    assert judged.apart[1].before > 0


@pytest.mark.parametrize("objective", ["hops", "cost"])
def test_shares_are_of_what_is_paid_whatever_is_paid_for(objective, tmp_path):
    trace = system(tmp_path / "t", groups, 16, homes=WRONG)
    found = optimize(trace, tmp_path / "run", *options_of(**FREE, objective=objective))
    (share,) = re.findall(
        r"^  newcomers: .* less \((\d+)% of today's cost\)", "\n".join(full_text(found)), re.MULTILINE
    )
    assert 20 < int(share) < 80  # of hops, the two of clients' own links count too


def test_a_cut_in_mid_bucket_and_a_short_log_are_judged_by_all_that_was_heard(tmp_path):
    for name, days, until in (("mid", 14, "1970-01-11T06:30"), ("short", 1, "1970-01-01T17:00")):
        trace = system(tmp_path / name, turning, 12, days=days, homes=ENDS)
        try:
            (part,) = optimize(trace, tmp_path / f"{name}-run", *options_of(**FREE, train_until=until)).verdicts
        except NoChangeRecommended as error:
            (part,) = error.result.verdicts
        assert part.saving.share == pytest.approx(1 - part.after / part.before)
        assert part.saving.slices > 3


def test_an_earlier_time_at_which_the_system_was_not_whole_is_left_out(tmp_path):
    """A link comes on day 11 of 14: before, the brokers were in two parts, and nothing is chosen there."""
    day = pa.array([None, None, 11 * DAY_US], pa.int64()).cast(TIME)
    path = tmp_path / "t"
    messages = [(d * DAY_US + h * HOUR_US, c, 0, 1, [7 - c]) for d in range(20) for h in (3, 9) for c in range(8)]
    names = {"client": [f"c{i}" for i in range(8)], "broker": BROKERS, "region": ["x", "y"]}
    sessions = {"client": range(8), "broker": [c % 4 for c in range(8)]}
    links = {**TABLES["links"], "since": day}
    trace_of(path, messages, names, brokers=TABLES["brokers"], links=links, sessions=sessions)
    (part,) = optimize(str(path), tmp_path / "run", *options_of(**FREE)).verdicts
    assert part.saving.share > 0.5
    assert part.document.judged.expected.origins == 1


def test_ids_say_nothing(tmp_path):
    """The same log with clients that came up late under other ids: rule, expected saving and plan are the same."""
    found = []
    for name, order in (("one", range(16)), ("two", [*range(8), *reversed(range(8, 16))])):
        turned = dict(zip(range(16), order, strict=True))
        rng, messages = np.random.default_rng(3), []
        for day in range(21):
            for i, (a, b) in enumerate(groups(day, rng)):
                messages.append((day * DAY_US + i % 24 * HOUR_US, turned[a], 0, 10, [turned[b]]))
        called, homes = [""] * 16, [0] * 16
        for c, i in turned.items():
            called[i], homes[i] = f"c{c:02d}", WRONG[c]
        names = {"client": called, "broker": BROKERS, "region": ["x", "y"]}
        trace = trace_of(
            tmp_path / name, messages, names, **TABLES, sessions={"client": range(16), "broker": homes},
            notes=FROM_LOGS,
        )  # fmt: skip
        options = options_of(**FREE | {"sent_cap": 1.1, "handled_cap": 1.0})
        try:
            (part,) = optimize(str(trace.path), tmp_path / f"run-{name}", *options).verdicts
        except NoChangeRecommended as error:
            (part,) = error.result.verdicts
        document = part.document
        found.append((document.newcomers, document.judged.expected, document.steps, part.after))
    assert found[0] == found[1]
