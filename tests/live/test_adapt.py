"""What `live adapt` decides, window by window, on a network in this process: when it does nothing, who rests, what it
remembers."""

import itertools
import json
import re
import shutil
import socket
import urllib.request

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadNetwork, BadParameter, Busy
from overlace.live import adapt as adapting
from overlace.live.adapt import Adaptation, Ended, Outcome, as_pattern
from overlace.live.deployment import check_deployment
from overlace.live.exposed import ADDRESS, Exposed
from overlace.live.figures import WindowFigures, figures_of
from overlace.live.journal import begin_journal
from overlace.live.kept import Memory
from overlace.live.local import draw_tree
from overlace.live.options import AdaptOptions, TrafficOptions, read_share
from overlace.live.recorder import Span
from overlace.live.recording_tables import Published
from overlace.live.scenario import draw_scenario
from overlace.live.windows import Window, join_spans, join_windows, likeness, of_one_pattern, read_window
from overlace.observe.observation import observe_with_names
from overlace.optimize import forecast
from overlace.optimize.result import NoChangeRecommended
from overlace.optimize.scope import by_kind, matches
from tests.live.memory import MemoryClient
from tests.live.servers import free_port
from tests.live.simulated import SimulatedSite

EVERY = 8.0
NAMES = [f"b{i}" for i in range(4)]
OPTIONS = AdaptOptions(every=EVERY, effort=0)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """A window that could not be recorded is followed by the next at once."""
    monkeypatch.setattr(Adaptation, "_wait", lambda self, until, tell: None)


def make_site(folder, change_at=(), rate=100.0, noise=0.0, seed=3):
    entries = {name: {"client": f"127.0.0.1:{4222 + i}"} for i, name in enumerate(NAMES)}
    deployment = check_deployment({"substrate": "nats", "brokers": entries}, folder / "network.toml")
    options = TrafficOptions(seed=seed, clients=14, topics=8, rate=rate, change_at=change_at)
    return SimulatedSite(deployment, options, draw_tree(NAMES, seed), noise)


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path)


def run(site, windows=1, options=OPTIONS):
    adaptation = Adaptation(site, options)
    with adaptation.held():
        return [adaptation.window() for _ in range(windows)], adaptation


def state(site):
    """All that a swap could change."""
    return site.network.links, site.homes, {each.live for each in site.network.clients}


def changed(site):
    return any(order["do"] in ("prepare", "switch", "finish", "cancel") for order in site.network.orders)


# what it does


def test_a_plan_that_pays_is_carried_out_once_and_the_next_window_costs_what_was_promised(site):
    before = site.homes
    (first, second), adaptation = run(site, 2)
    assert first.gain >= 0.05
    assert first.why == ""
    assert (first.applied.landed, first.applied.links_landed) == (14, 3)
    moved = {name for name, home in site.homes.items() if home != before[name]}
    assert first.moves == len(moved)
    assert set(adaptation.kept.moved) == moved
    assert site.network.broken_laws() == []
    assert second.figures.crossings < (1 - first.gain / 2) * first.figures.crossings
    assert second.applied is None
    assert f"{first.moves} clients moved" in first.line()
    assert "nothing done" in second.line()
    assert json.loads(json.dumps(first.document()))["applied"]["landed"] == 14


def test_a_budget_is_kept(site):
    (found,), _ = run(site, options=AdaptOptions(every=EVERY, effort=0, budget=2))
    assert found.applied
    assert 1 <= found.moves + found.links <= 2


# when it does nothing


def test_nothing_is_done_for_less_than_the_least_gain(site):
    was = state(site)
    (found,), _ = run(site, options=AdaptOptions(every=EVERY, effort=0, min_gain=0.999))
    assert found.why == "less than --min-gain 100%"
    assert 0 < found.gain < 0.999
    assert (state(site), changed(site)) == (was, False)


def test_nothing_is_done_with_few_messages(tmp_path):
    site = make_site(tmp_path, rate=10.0)
    (found,), _ = run(site)
    assert re.fullmatch(r"\d+ messages recorded, fewer than 300", found.why)
    assert found.gain is None
    assert not changed(site)


def test_nothing_is_done_where_nothing_is_published(site):
    site._published = lambda seconds: []
    (found,), _ = run(site)
    assert "nothing was published" in found.why
    assert found.figures is None


def test_nothing_is_done_with_a_silent_broker(site):
    was = state(site)
    site.network.silent.add("b2")
    (found,), _ = run(site)
    assert "b2" in found.why
    assert "does not answer" in found.why
    site.network.silent.clear()
    record = site.record

    def and_then_silence(*args):
        record(*args)
        site.network.silent.add("b1")

    site.record = and_then_silence
    (found,), _ = run(site)
    assert "b1" in found.why
    assert (state(site), changed(site)) == (was, False)


def test_nothing_is_done_while_a_swap_is_unfinished(site):
    journal = begin_journal(site.deployment.folder / "journal", {"old": 0, "new": 1})
    (found,), _ = run(site)
    assert "a colour swap is not finished" in found.why
    assert not changed(site)
    journal.write("end", live=0, how="rollback")
    (found,), _ = run(site)
    assert found.applied


@pytest.mark.parametrize("what", ["left behind", "unwrapped", "elsewhere"])
def test_nothing_is_done_where_a_plan_does_not_fit_the_network_or_would_lose_something(site, what):
    record = site.record

    def and_then(*args):
        record(*args)
        if what == "elsewhere":  # somebody has moved everybody meanwhile
            for each in site.network.clients:
                each.home = NAMES[(NAMES.index(each.home) + 1) % len(NAMES)]

    site.record = and_then
    if what == "left behind":
        site.network.left_behind.append("stream ORDERS in BLUE")
    if what == "unwrapped":
        site.network.clients.append(MemoryClient("old thing", "b0", wrapped=False))
    (found,), _ = run(site)
    wanted = {"left behind": "stream ORDERS", "unwrapped": "'old thing'", "elsewhere": "record it again"}
    assert wanted[what] in found.why
    assert found.gain > 0
    assert not changed(site)
    assert not list(site.deployment.folder.glob("journal/*"))


def test_what_optimize_would_not_recommend_is_not_carried_out(site, monkeypatch):
    def refuse(*args, **options):
        found = adapted(*args, **options)
        object.__setattr__(found, "why_not", "no plan was found that keeps --max-degree.")
        raise NoChangeRecommended(found)

    adapted = adapting.optimize
    monkeypatch.setattr(adapting, "optimize", refuse)
    (found,), _ = run(site)
    assert found.why == "no plan was found that keeps --max-degree"
    assert found.gain > 0
    assert not changed(site)


def test_a_dry_run_changes_nothing_and_says_what_it_would(site):
    was = state(site)
    (found,), adaptation = run(site, options=AdaptOptions(every=EVERY, effort=0, dry_run=True))
    assert (state(site), changed(site)) == (was, False)
    assert re.fullmatch(r"\d+ clients would move, \d+ links? would change; --dry-run changes nothing", found.why)
    assert found.moves > 0
    assert found.gain > 0.05
    assert adaptation.kept.moved == {}
    assert not (site.deployment.folder / "journal").exists()


# who rests


def test_who_moved_rests_and_may_move_again_later(tmp_path):
    moves = {}
    for rest in (0, 2):
        site = make_site(tmp_path / str(rest), change_at=(EVERY, 2 * EVERY, 3 * EVERY))
        adaptation = Adaptation(site, AdaptOptions(every=EVERY, effort=0, rest=rest))
        with adaptation.held():
            moves[rest] = []
            for _ in range(4):
                before = site.homes
                adaptation.window()
                moves[rest].append({name for name, home in site.homes.items() if home != before[name]})
    first, second, third, fourth = moves[2]
    assert first
    assert not first & (second | third)
    assert not second & (third | fourth)
    assert first & fourth
    assert moves[0][0] & moves[0][1]


def test_a_change_of_pattern_wakes_who_rests_where_that_is_asked_for(tmp_path):
    site = make_site(tmp_path, change_at=(EVERY,))
    adaptation = Adaptation(site, AdaptOptions(every=EVERY, effort=0, wake=True))
    with adaptation.held():
        adaptation.window()
        first, before = set(adaptation.kept.moved), site.homes
        adaptation.window()
    assert first & {name for name, home in site.homes.items() if home != before[name]}
    assert set(adaptation.kept.moved.values()) == {2}


def test_a_name_is_a_pattern_of_that_name_alone():
    names = st.text(st.sampled_from("abroke:*?[]!lin- 1"), min_size=1, max_size=12)
    names |= st.sampled_from(["broker:b1", "link:a:b", "*", "[a]", "client:x", "!", "brokers"])

    @settings(max_examples=300)
    @given(names, names)
    def law(name, other):
        pattern = as_pattern(name)
        assert by_kind([pattern])["client"] == [pattern]
        assert matches(name, pattern)
        assert matches(other, pattern) == (name == other)

    law()


# what it remembers


def test_started_again_it_decides_as_if_it_had_never_stopped(tmp_path):
    stories = []
    for again in (False, True):
        site = make_site(tmp_path / str(again), change_at=(2 * EVERY,), noise=0.5)
        found = run(site, 4)[0] if not again else [run(site)[0][0] for _ in range(4)]
        stories.append(([(each.window, each.gain, each.moves, each.links) for each in found], site.homes))
    assert stories[0] == stories[1]
    assert [each[0] for each in stories[0][0]] == [1, 2, 3, 4]


def test_what_is_kept_is_written_whole_for_nobody_else_and_old_windows_go(site):
    _, adaptation = run(site, 3)
    path = site.deployment.folder / "adapt.json"
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert oct((path.parent / "adapt").stat().st_mode & 0o777) == "0o700"
    there = sorted(each.name for each in (path.parent / "adapt").glob("window-*"))
    assert there == [f"window-{n:06d}" for n in range(4 - OPTIONS.kept, 4) if n > 0]
    assert Memory(site.deployment).read() == adaptation.kept


def test_a_torn_file_is_said_and_not_trusted(site):
    run(site)
    path = site.deployment.folder / "adapt.json"
    text = path.read_bytes()
    for end in range(len(text) - 1):
        path.write_bytes(text[:end])
        memory = Memory(site.deployment)
        kept = memory.read()
        assert (kept.number, kept.windows, kept.moved) == (1, {}, {})
        assert "torn" in memory.notes[0]
    for odd in (
        b"[]",
        b"{}",
        b'{"adapt": 1, "number": "x"}',
        b'{"adapt":1,"number":1,"applies":0,"moved":[],"windows":3}',
    ):
        path.write_bytes(odd)
        assert Memory(site.deployment).read().moved == {}
    path.write_bytes(b'{"adapt": 2}')
    with pytest.raises(BadNetwork, match="another version"):
        Memory(site.deployment).read()
    path.write_bytes(text[:40])
    (found,), _ = run(site)
    assert found.window == 2
    assert json.loads(path.read_bytes())["number"] == 2


def test_a_window_whose_trace_is_gone_is_not_missed(site):
    run(site)
    shutil.rmtree(site.deployment.folder / "adapt" / "window-000001")
    (found,), _ = run(site)
    assert found.figures.messages > 300


def test_only_one_at_a_time(site):
    one, other = Adaptation(site, OPTIONS), Adaptation(site, OPTIONS)
    with one.held(), pytest.raises(Busy, match="another `overlace live adapt`"), other.held():
        pass


def test_who_moved_is_noted_before_anybody_moves(site, monkeypatch):
    """A kill in the middle of a swap must not make anybody forget who moves."""

    async def killed(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(adapting, "carry_out", killed)
    with pytest.raises(KeyboardInterrupt):
        run(site)
    assert Memory(site.deployment).read().moved


# its end


def test_asked_to_end_it_stops_the_recording_and_decides_nothing(site, monkeypatch):
    monkeypatch.setattr(adapting, "asked", lambda: True)
    adaptation = Adaptation(site, OPTIONS)
    with adaptation.held():
        assert not adaptation.goes_on()
        assert adaptation.window() is None
    assert not changed(site)


def test_asked_to_end_while_it_plans_it_carries_nothing_out(site, monkeypatch):
    plan = adapting.optimize

    def and_then_ask(*args, **options):
        found = plan(*args, **options)
        monkeypatch.setattr(adapting, "asked", lambda: True)
        return found

    monkeypatch.setattr(adapting, "optimize", and_then_ask)
    (found,), _ = run(site)
    assert "ended before" in found.why
    assert not changed(site)


def test_so_many_windows_are_enough(site):
    adaptation = Adaptation(site, AdaptOptions(every=EVERY, effort=0, windows=1))
    with adaptation.held():
        assert adaptation.goes_on()
        adaptation.window()
        assert not adaptation.goes_on()


def test_waiting_for_the_next_window_ends_when_asked(site, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(adapting, "asked", lambda: True)
    with pytest.raises(Ended):
        Adaptation(site, OPTIONS)._wait(10**9, lambda share, what: None)


# newcomers


def test_who_comes_late_goes_where_the_plans_rule_sends_it(site, monkeypatch):
    """It talks with one community, first in the held-out part; nobody knew of it before."""
    choose = forecast._choose_rule
    monkeypatch.setattr(forecast, "_choose_rule", lambda *args: ("first-contact", choose(*args)[1]))
    topic = max(site.scenario.topics, key=lambda each: len(each.receivers))
    site.network.clients.append(MemoryClient("late", "b3", []))
    published, sessions = site._published, site._sessions
    late = site.at_us + 6_000_000

    def with_late(seconds):
        more = [Published(late + k * 1_000_000, "late", topic.name, 40, 400) for k in range(2)]
        return [*published(seconds), *more]

    def since_then():
        return [each._replace(since=late) if each.what[0] == "late" else each for each in sessions()]

    site._published, site._sessions = with_late, since_then
    told = []
    rule = adapting.newcomers_of
    monkeypatch.setattr(adapting, "newcomers_of", lambda *args: told.append(rule(*args)) or told[-1])
    (found,), adaptation = run(site)
    assert found.applied.landed == found.applied.clients == 15
    assert told == [{"late": site.homes["late"]}]
    assert ("late" in adaptation.kept.moved) == (site.homes["late"] != "b3")


# windows


def test_windows_joined_are_what_was_recorded_with_todays_homes_and_links(site, tmp_path):
    found, adaptation = run(site, 2)
    assert found[0].applied
    contents = [read_window(each) for each in adaptation.kept.windows.values()]
    joined = join_windows(contents, site.deployment, tmp_path / "joined")
    assert sum(joined.read("traffic")["messages"].to_pylist()) == sum(each.figures.messages for each in found)
    moved = set(adaptation.kept.moved)
    sessions = read_window(Window(tmp_path / "joined", 0, 0)).sessions
    for name in site.homes:
        mine = [each for each in sessions if each.what[0] == name]
        assert mine[-1].what == (name, site.homes[name])
        assert mine[-1].until is None
        if name in moved:
            assert mine[0].until == mine[-1].since == contents[1].window.begin_us
        else:
            assert mine == [Span((name, site.homes[name]), None, None)]
    observation, names = observe_with_names(joined)
    homes = observation.overlay.homes(observation.clients)
    assert {names["client"][i]: names["broker"][b] for i, b in enumerate(homes.tolist())} == site.homes
    tree = {tuple(sorted(names["broker"][b] for b in link)) for link in observation.overlay.tree.tolist()}
    assert tree == set(site.network.links[site.live])
    assert figures_of(joined, "messages").messages == sum(each.figures.messages for each in found)


def test_joined_spans_say_at_every_moment_of_a_window_what_its_own_do():
    keys, length = ("a", "b", "c"), 10

    @st.composite
    def spans(draw, begin):
        found = []
        for key in keys:
            edges = draw(st.lists(st.integers(begin + 1, begin + length - 1), max_size=3, unique=True).map(sorted))
            cuts = [None, *edges, None]
            on = draw(st.booleans())
            for left, right in zip(cuts, cuts[1:], strict=False):
                if on:
                    found.append(Span((key,), left, right))
                on = not on
        return found

    @settings(max_examples=200)
    @given(st.data(), st.integers(1, 4), st.integers(0, 5))
    def law(data, count, gap):
        begins = [100 + k * (length + gap) for k in range(count)]
        windows = [data.draw(spans(begin)) for begin in begins]
        joined = join_spans(begins, windows)
        for begin, own in zip(begins, windows, strict=True):
            for at in range(begin, begin + length):
                for key in keys:
                    assert _holds(joined, key, at) == _holds(own, key, at), (key, at)
        for key in keys:
            mine = sorted((each for each in joined if each.what == (key,)), key=lambda each: each.since or 0)
            assert all(a.until < b.since for a, b in zip(mine, mine[1:], strict=False)), "none touch or overlap"

    law()


def _holds(spans, key, at):
    return any(
        each.what == (key,) and (each.since is None or each.since <= at) and (each.until is None or at < each.until)
        for each in spans
    )


def test_windows_of_another_pattern_are_not_planned_from(tmp_path):
    site = make_site(tmp_path, change_at=(2 * EVERY,))
    windows = []
    for k in range(4):
        site.record(tmp_path / f"w{k}", EVERY, lambda share, what: None)
        windows.append(read_window(Window(tmp_path / f"w{k}", 0, 0)))
    assert of_one_pattern(windows) == windows[2:]
    assert of_one_pattern(windows[:2]) == windows[:2]
    assert likeness(windows[0], windows[0]) == pytest.approx(1)
    assert likeness(windows[0], windows[3]) < 0.1


def test_a_pattern_that_changes_is_the_same_clients_with_other_topics():
    plain, changing = (
        draw_scenario(TrafficOptions(seed=9, clients=12, topics=6, change_at=at), NAMES, "nats", lambda name: None)
        for at in ((), (5.0, 9.0))
    )
    first = len(plain.topics)
    assert changing.homes == plain.homes
    assert changing.topics[:first] == plain.topics
    assert len({each.name for each in changing.topics}) == len(changing.topics) == 3 * first
    assert {name for each in changing.topics for name in (*each.publishers, *each.receivers)} <= set(plain.homes)
    assert sum(share for _, _, share in changing.flows(2)) == pytest.approx(1)
    events = list(itertools.takewhile(lambda each: each.at < 12, changing.events()))
    for each in events:
        assert changing.topics[each.topic].pattern == (each.at >= 5) + (each.at >= 9)
    with pytest.raises(BadParameter, match="in their order"):
        TrafficOptions(change_at=(9.0, 5.0))


# metrics


def outcome(**more):
    figures = WindowFigures(10, 20.0, 2.0, {"b0": 7, "b1": 3}, {("b0", "b1"): 20}, {"b0": 1, "b1": 2})
    return Outcome(1, figures, **more)


def read_metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def test_metrics_are_served_on_loopback_by_broker_and_link():
    port = free_port()
    with Exposed(port) as exposed:
        exposed.take(outcome(gain=0.25, why="less than --min-gain 50%"))
        exposed.take(outcome(gain=0.5, moves=3, links=1, applied=object()))
        exposed.take(Outcome(3, why="b1 does not answer"))
        found = read_metrics(port)
        assert exposed._server.server_address[0] == ADDRESS == "127.0.0.1"
        with pytest.raises(BadNetwork, match="cannot listen"), Exposed(port):
            pass
    assert found["overlace_windows_total"] == 3
    assert found["overlace_idle_windows_total"] == 2
    assert found["overlace_applies_total"] == 1
    assert found["overlace_moves_total"] == 3
    assert found['overlace_messages_total{broker="b0"}'] == 14
    assert found['overlace_crossings_total{left="b0",right="b1"}'] == 40
    assert found['overlace_clients{broker="b1"}'] == 2
    assert found["overlace_gain_ratio"] == 0.5
    assert found["overlace_last_window_timestamp_seconds"] > 1.7e9
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_share_is_read_from_percents_or_a_number():
    assert read_share("5%") == read_share("0.05") == read_share(" 5 % ") == 0.05
    with pytest.raises(BadParameter, match="such as 5%"):
        read_share("a lot")
    with pytest.raises(BadParameter):
        AdaptOptions(min_gain=5.0)
