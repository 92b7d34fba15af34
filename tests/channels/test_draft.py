import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadParameter
from overlace.planners.channels import draft as drafts
from overlace.planners.channels.draft import CoolingRound, copy_cut, empty_draft, follow, search, weigh_drafted
from overlace.planners.channels.moves import received
from overlace.planners.channels.partition import HELD, recut
from overlace.planners.channels.strategy4 import Strategy4
from reproductions.workloads.publishers import publishers as publishers_of
from tests.channels.common import observed, partition, publishers

WARM = CoolingRound(400, 5.0, 1.0, 0.5, 2.0)


def counted_anew(book, now, draft):
    """The same cut as a partition of its own, which counts everything from the start."""
    used, places = np.unique(draft.channel, return_inverse=True)
    return recut(book, now, places - (used[0] < 0))


def same_traffic(book, now, draft):
    other = counted_anew(book, now, draft)
    present = now.present > 0
    assert (draft.channel >= 0).tolist() == (now.channel >= 0).tolist()
    assert received(other) == (draft.subscribers * draft.rate).sum()
    assert other.connections[present].tolist() == draft.connections[present].tolist()
    assert sorted(other.size[other.size > 0]) == sorted(draft.size[draft.size > 0])


@settings(max_examples=40, deadline=None)
@given(publishers, st.data())
def test_a_draft_counts_exactly_while_others_join_and_leave(joins, data):
    messages = data.draw(st.lists(st.integers(0, 9), min_size=len(joins), max_size=len(joins)))
    online = Strategy4(effort=3, drafted=0).online(observed(joins, messages))
    online.join(0)
    book, now, draft = online.book, online.now, empty_draft(online.book, 5)
    copy_cut(book, now, draft)
    same_traffic(book, now, draft)
    for row in range(1, len(joins)):
        goes = data.draw(st.sampled_from([None, *np.flatnonzero(online.present).tolist()]))
        online.join(row)
        follow(book, now, draft, book.kind_type[online.kinds[row]], messages[row])
        if goes is not None:
            online.leave(goes)
            follow(book, now, draft, book.kind_type[online.kinds[goes]], -messages[goes])
        search(book, now, draft, WARM, 0, 40)
        same_traffic(book, now, draft)


@settings(max_examples=40, deadline=None)
@given(publishers, st.integers(0, 99))
def test_what_a_move_is_said_to_add_is_what_it_adds(joins, seed):
    online = Strategy4(effort=0, drafted=0).online(observed(joins))
    online.join(0, len(joins))
    book, now, draft = online.book, online.now, empty_draft(online.book, seed)
    copy_cut(book, now, draft)
    search(book, now, draft, WARM, 0, 60)

    def state():
        other = counted_anew(book, now, draft)
        return received(other), int(np.maximum(other.connections - other.limit, 0).sum())

    rng = np.random.default_rng(seed)
    a = int(rng.integers(len(draft.channel)))
    d = int(rng.choice(draft.channel))
    if d != draft.channel[a]:
        traffic, beyond = state()
        said = weigh_drafted(book, now, draft, a, d)
        draft.channel[a] = d
        after = state()
        assert said == (after[0] - traffic, after[1] - beyond)


@settings(max_examples=20, deadline=None)
@given(publishers, st.integers(0, 9))
def test_a_draft_that_must_save_everything_is_never_taken(joins, seed):
    plain, never = Strategy4(12, drafted=0), Strategy4(12, drafted=50, hysteresis=1.0)
    assert plain.solve(observed(joins), seed).after == never.solve(observed(joins), seed).after


@settings(max_examples=20, deadline=None)
@given(publishers, st.data())
def test_who_joins_at_once_and_who_joins_one_by_one_end_up_the_same(joins, data):
    planner, cut = Strategy4(effort=5, drafted=60, hysteresis=0.0), data.draw(st.integers(0, len(joins)))
    at_once, in_parts = planner.online(observed(joins), 3), planner.online(observed(joins), 3)
    at_once.join(0, len(joins))
    in_parts.join(0, cut)
    for row in range(cut, len(joins)):
        in_parts.join(row)
    assert partition(at_once.pairs) == partition(in_parts.pairs)
    assert (at_once.changed, at_once.retuned) == (in_parts.changed, in_parts.retuned)


def test_a_draft_finds_what_local_moves_do_not():
    """Over three seeds together, at nearly the same number of local moves."""
    saved = 0
    for seed in (100, 101, 102):
        observation = publishers_of(250, 8, (3, 4), (9, 12), seed=seed)
        without, with_draft = (Strategy4(60, drafted).online(observation, seed) for drafted in (0, 2000))
        for online in (without, with_draft):
            online.join(0, 250)
        saved += received(without.now) - received(with_draft.now)
    assert saved > 0


def test_where_pairs_are_too_many_there_is_no_draft(monkeypatch):
    observation = publishers_of(40, 6, (2, 3), (3, 5), seed=1)
    plain = Strategy4(9, drafted=0).solve(observation).after
    monkeypatch.setattr(drafts, "MOST_COUNTED", 100)
    online = Strategy4(9, drafted=500).online(observation)
    assert len(online.draft.channel) == 0
    assert online.now.counts[HELD] == 0
    assert Strategy4(9, drafted=500).solve(observation).after == plain


@pytest.mark.parametrize(("name", "value"), [("drafted", -1), ("hysteresis", -0.1), ("hysteresis", 1.5)])
def test_parameters_out_of_range_are_refused(name, value):
    with pytest.raises(BadParameter, match=f"{name} is {value}"):
        Strategy4(**{name: value})
