"""A forecast is the same traffic, other parts of it counting more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from overlace.model import PARTS, Classes, Flows, Observation
from overlace.observe.forecast import PLAIN, expect_traffic, half_life_of, read_slices, weights
from overlace.observe.forecast import slices_of as added
from overlace.observe.known import known_in
from overlace.trace.plan_file import ForecastModel
from overlace.trace.store import DAY_US, HOUR_US
from overlace.trace.traffic import Traffic
from tests.traces import observe, trace_of

CLIENTS = 6
pairs = st.dictionaries(
    st.tuples(st.integers(0, CLIENTS - 1), st.integers(0, CLIENTS - 1)).filter(lambda p: p[0] != p[1]),
    st.integers(1, 99), min_size=1, max_size=6,
)  # fmt: skip
days = st.lists(pairs, min_size=1, max_size=6)


def traffic(talk):
    """Flows and classes of two of one day."""
    ends = np.array(sorted(talk), dtype=np.int64)
    said = np.array([talk[tuple(each)] for each in ends.tolist()])
    both = {}
    for (a, b), amount in talk.items():
        both[min(a, b), max(a, b)] = both.get((min(a, b), max(a, b)), 0) + amount
    return Flows(*ends.T, said, 10 * said), Classes.of(sorted(both), [both[k] for k in sorted(both)])


def slices_of(talks):
    rows = [(i, a, b, amount) for i, talk in enumerate(talks) for (a, b), amount in talk.items()]
    when, client, receiver, amount = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    none, each = np.full(len(when), -1), np.arange(len(when))
    columns = (when * DAY_US, client, none, none, each, amount, 10 * amount)
    return added(DAY_US * np.arange(len(talks) + 1), when, Traffic(*columns, np.arange(len(when) + 1), receiver))


def whole(talks):
    """The observation of all days together."""
    all_days = {}
    for talk in talks:
        for pair, amount in talk.items():
            all_days[pair] = all_days.get(pair, 0) + amount
    flows, classes = traffic(all_days)
    sent = np.bincount(flows.sender, weights=flows.messages, minlength=CLIENTS)
    return Observation(flows=flows, classes=classes, clients=CLIENTS, sent=sent, sent_bytes=10 * sent)


def by_members(classes):
    return {
        tuple(classes.members[a:b].tolist()): int(amount)
        for a, b, amount in zip(classes.start, classes.start[1:], classes.demand, strict=False)
    }


@given(days)
def test_without_ageing_and_blocks_it_is_the_traffic_itself_in_thousandths(talks):
    plain, made = whole(talks), expect_traffic(whole(talks), slices_of(talks), ForecastModel())
    assert by_members(made.classes) == {k: PARTS * v for k, v in by_members(plain.classes).items()}
    assert made.flows.messages.tolist() == (PARTS * plain.flows.messages).tolist()
    assert made.flows.bytes.tolist() == (PARTS * plain.flows.bytes).tolist()
    assert made.sent.tolist() == (PARTS * plain.sent).tolist()


@given(days, st.sampled_from([None, 7, 1]), st.sampled_from([0.0, 0.2, 0.5]), st.integers(0, 3))
def test_there_is_as_much_traffic_as_there_was_and_the_same_seed_gives_the_same(talks, half_life, blocks, seed):
    plain, slices = whole(talks), slices_of(talks)
    made = expect_traffic(plain, slices, ForecastModel(half_life_days=half_life, blocks=blocks), seed)
    again = expect_traffic(plain, slices, ForecastModel(half_life_days=half_life, blocks=blocks), seed)
    assert made.digest() == again.digest()
    rounding = len(made.classes) + 4 * len(plain.flows.sender) * len(talks) + 1
    assert abs(int(made.classes.demand.sum()) - PARTS * int(plain.classes.demand.sum())) <= rounding
    assert abs(int(made.flows.messages.sum()) - PARTS * int(plain.flows.messages.sum())) <= rounding
    assert (made.overlay, made.network) == (plain.overlay, plain.network)


@given(days.filter(lambda talks: len(talks) > 1), st.sampled_from([7, 1]))
def test_each_class_counts_by_its_age_and_a_part_of_it_plainly(talks, half_life):
    plain, slices = whole(talks), slices_of(talks)
    age = weights(slices.end, len(talks) * DAY_US, half_life)
    assert age.tolist() == pytest.approx([0.5 ** ((len(talks) - 1 - i) / half_life) for i in range(len(talks))])
    total = sum(sum(talk.values()) for talk in talks)
    aged = sum(age[i] * sum(talk.values()) for i, talk in enumerate(talks))
    found = by_members(expect_traffic(plain, slices, ForecastModel(half_life_days=half_life)).classes)
    for pair in found:
        said = [talk.get(pair, 0) + talk.get(pair[::-1], 0) for talk in talks]
        wanted = (1 - PLAIN) * (age @ said) * total / aged + PLAIN * sum(said)
        assert found[pair] == pytest.approx(PARTS * wanted, abs=0.51)


def test_what_stays_the_same_does_not_age_and_what_changes_ages_fast():
    same = [{(0, 1): 50, (2, 3): 20, (4, 5): 5}] * 28
    assert half_life_of(slices_of(same), CLIENTS) is None
    moved = [{(0, 1): 50}] * 10 + [{(2, 3): 50}] * 18
    assert half_life_of(slices_of(moved), CLIENTS) == 1
    assert half_life_of(slices_of([]), CLIENTS) is None
    assert half_life_of(slices_of(same[:1]), CLIENTS) is None


def test_partners_are_drawn_from_the_community_of_the_real_one():
    """Two groups that talk among themselves: what is drawn joins clients of one group that have never talked."""
    talk = {(0, 1): 90, (1, 2): 90, (3, 4): 90, (4, 5): 90}
    made = expect_traffic(whole([talk]), slices_of([talk]), ForecastModel(blocks=0.5))
    found = by_members(made.classes)
    assert {(0, 2), (3, 5)} <= set(found)
    assert not [pair for pair in found if (pair[0] < 3) != (pair[1] < 3)]
    drawn = sum(amount for pair, amount in found.items() if pair in {(0, 2), (3, 5)})
    assert 0 < drawn < 0.5 * PARTS * 360


def test_the_days_of_a_trace_are_all_of_its_traffic(tmp_path):
    hours = (1, 5, 26, 30, 49, 71)
    messages = [(h * HOUR_US + 5, h % 3, 0, 10, [(h + 1) % 3, 3]) for h in hours for _ in range(h)]
    trace = trace_of(tmp_path / "t", messages)
    window = (HOUR_US, 72 * HOUR_US)
    observation, known = observe(trace, window), known_in(trace, window)
    slices = read_slices(trace, window, known)
    assert slices.begin.tolist() == [HOUR_US, 24 * HOUR_US, 48 * HOUR_US]
    assert slices.end.tolist() == [24 * HOUR_US, 48 * HOUR_US, 72 * HOUR_US]
    made = expect_traffic(observation, slices, ForecastModel())
    assert by_members(made.classes) == {k: PARTS * v for k, v in by_members(observation.classes).items()}
    assert made.flows.messages.sum() == PARTS * observation.flows.messages.sum()


@pytest.mark.parametrize("given_", [{"half_life_days": 0}, {"half_life_days": -1.0}, {"blocks": 1.0}, {"blocks": -0.1}])
def test_values_out_of_range_are_refused(given_):
    with pytest.raises(ValidationError, match=next(iter(given_))):
        ForecastModel(**given_)


def test_it_says_what_it_is():
    assert str(ForecastModel(half_life_days=7, blocks=0.2)) == "half-life 7 days, 20% community blocks"
    assert str(ForecastModel()) == "plain sums"
    assert str(ForecastModel(blocks=0.5)) == "no ageing, 50% community blocks"
