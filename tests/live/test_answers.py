"""What clients answer: whoever may answer may say anything; parts are put together whatever their order."""

import json
import threading

from hypothesis import given
from hypothesis import strategies as st

from overlace.live.adapter import Answers, read_answer
from overlace.live.recorder import Recording, Shown, look

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800"),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=3), each, max_size=3),
    max_leaves=8,
)
KEYS = ("client", "instance", "live", "homes", "filters", "counts", "part", "parts", "error")
GOOD = {
    "client": "c",
    "instance": "i",
    "live": 0,
    "homes": ["a", None],
    "filters": [["x", None]],
    "counts": {"x": [1, 2]},
}


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, anything)) | anything, st.booleans())
def test_an_answer_is_none_or_of_use_whatever_is_in_it(told, filled):
    data = json.dumps({**GOOD, **told} if filled and isinstance(told, dict) else told).encode()
    found = read_answer(data)
    answers = Answers()
    answers.take(data)
    if found is None:
        assert answers.whole() == []
        return
    recording = Recording("counted", 0)
    look(recording, Shown({"a": "1"}, (frozenset(), frozenset()), {}), [found], 0)
    for what in (*recording.sessions.rows(), *recording.subscriptions.rows()):
        "".join(each for each in what.what if each is not None).encode()
    assert {span.what[1] for span in recording.sessions.rows()} <= {"a"}
    assert all(0 <= number < 1 << 53 for pair in found["counts"].values() for number in pair)


def test_what_is_no_json_is_no_answer():
    assert all(read_answer(data) is None for data in (b"", b"\xff", b"[" * 100_000, b"{}", b"1", b'{"client": 1}'))


@given(st.data(), st.lists(st.text(max_size=4), max_size=9, unique=True), st.integers(1, 4))
def test_parts_are_whole_when_all_are_there_in_any_order(data, words, parts):
    filters = [[word, None] for word in words]
    sent = [
        {
            **GOOD,
            "part": i,
            "parts": parts,
            "filters": filters[i::parts],
            "counts": {w: [1, 1] for w in words[i::parts]},
        }
        for i in range(parts)
    ]
    answers = Answers()
    order = data.draw(st.permutations(sent))
    for i, each in enumerate(order):
        assert answers.whole() == []
        answers.take(json.dumps(each).encode())
        answers.take(json.dumps(order[data.draw(st.integers(0, i))]).encode())  # one of them twice
    (whole,) = answers.whole()
    assert sorted(text for text, _ in whole["filters"]) == sorted(words)
    assert whole["counts"] == dict.fromkeys(words, (1, 1))


def test_answers_may_come_from_other_threads_while_they_are_read():
    """As those of Mosquitto do: paho calls back in threads of its own."""
    answers = Answers()

    def feed():
        for i in range(3000):
            answers.take(json.dumps({"client": f"c{i}", "instance": "1"}).encode())

    threads = [threading.Thread(target=feed) for _ in range(2)]
    for each in threads:
        each.start()
    while any(each.is_alive() for each in threads):
        answers.whole()
    assert len(answers.whole()) == 3000
