import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.pairs import is_sorted
from overlace.errors import OverlaceError, Unknown
from overlace.matching.names import collapse, pseudonyms
from overlace.matching.topics import match, shared, valid

ENDS = {"mqtt": ("/", "+", "#"), "nats": (".", "*", ">")}
UUID = "123e4567-e89b-12d3-a456-426614174000"
dialects = st.sampled_from(sorted(ENDS))


def names(words, separators="/."):
    """Names over a small alphabet, with empty levels and separators at either end."""
    level = st.sampled_from(words)
    return st.lists(st.tuples(level, st.sampled_from(separators)), min_size=1, max_size=5).map(
        lambda parts: "".join(word + mark for word, mark in parts)[:-1]
    )


topics = st.lists(names(["", "a", "b", "$", "$a", "a b"]), max_size=12)
wild_topics = st.lists(names(["", "a", "b", "$a", "+", "#", "*", ">", "a#"]), max_size=12)
filters = st.lists(st.tuples(names(["", "a", "b", "$a", "+", "#", "*", ">", "a#", "a>", "a b"]), dialects), max_size=12)


def is_valid(text, dialect):
    """The rules as MQTT 5 §4.7.1 and the NATS documentation put them."""
    separator, one, rest = ENDS[dialect]
    levels = text.split(separator)
    if dialect == "nats":
        return all(level and " " not in level for level in levels) and rest not in levels[:-1]
    alone = all(level in (one, rest) or not {one, rest} & set(level) for level in levels)
    return text != "" and alone and rest not in levels[:-1]


def matches(text, dialect, topic):
    """A filter against a topic, level by level."""
    separator, one, rest = ENDS[dialect]
    wanted, found = text.split(separator), topic.split(separator)
    if not is_valid(text, dialect) or topic == "" or (dialect == "nats" and "" in found):
        return False
    if dialect == "mqtt" and topic.startswith("$") and wanted[0] in (one, rest):
        return False
    for i, level in enumerate(wanted):
        if level == rest:
            return len(found) > i or (dialect == "mqtt" and len(found) == i)
        if i == len(found) or level not in (one, found[i]):
            return False
    return len(wanted) == len(found)


def literal_match(rows, found):
    return [[i, k] for i, row in enumerate(rows) for k, topic in enumerate(found) if matches(*row, topic)]


def columns(rows):
    return [text for text, _ in rows], [dialect for _, dialect in rows]


@given(filters, topics)
def test_the_trie_matches_as_the_definition_does(rows, found):
    pairs = match(*columns(rows), found)
    assert pairs.tolist() == literal_match(rows, found)
    assert pairs.dtype == np.int64
    assert is_sorted(pairs)


@given(filters, wild_topics)
def test_a_wildcard_in_a_topic_is_a_word_like_any_other(rows, found):
    def plain(topic):  # a literal never equals a wildcard, so any other unused word must do as well
        return "".join({"+": "P", "#": "H", "*": "S", ">": "G"}.get(c, c) for c in topic)

    def literal(text, dialect):
        separator, one, rest = ENDS[dialect]
        return separator.join(level if level in (one, rest) else plain(level) for level in text.split(separator))

    good = [row for row in rows if is_valid(*row)]
    changed = [(literal(*row), row[1]) for row in good]
    assert match(*columns(good), found).tolist() == match(*columns(changed), [plain(t) for t in found]).tolist()


@given(filters)
def test_valid_is_what_the_definition_says(rows):
    assert valid(*columns(rows)).tolist() == [is_valid(*row) for row in rows]


@given(filters, topics, st.randoms(use_true_random=False))
def test_the_order_of_filters_and_topics_changes_no_match(rows, found, random):
    mixed, shuffled = random.sample(rows, len(rows)), random.sample(found, len(found))

    def by_name(some, others):
        return sorted((*some[i], others[k]) for i, k in match(*columns(some), others))

    assert by_name(rows, found) == by_name(mixed, shuffled)


@pytest.mark.parametrize(
    ("text", "topic", "received"),
    [
        ("sport/#", "sport", True),  # MQTT 5 §4.7.1.2
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/uptime", False),
        ("+/uptime", "$SYS/uptime", False),
        ("$SYS/#", "$SYS/uptime", True),
        ("$SYS/+", "$SYS/uptime", True),
        ("+/$a", "x/$a", True),
        ("a\nb/+", "a\nb/c\n", True),
    ],
)
def test_the_examples_of_the_mqtt_standard(text, topic, received):
    assert bool(len(match([text], "mqtt", [topic]))) == received


@pytest.mark.parametrize(
    ("text", "topic", "received"),
    [
        ("a.>", "a", False),
        ("a.>", "a.b.c", True),
        ("a.*", "a.b.c", False),
        (">", "$SYS.x", True),
        ("*.x", "$SYS.x", True),
        (">", "a..b", False),
    ],
)
def test_nats_needs_a_token_for_the_rest_and_hides_nothing(text, topic, received):
    assert bool(len(match([text], "nats", [topic]))) == received


@pytest.mark.parametrize("text", ["a#", "#/a", "a+/b", "", "a/#/b", "a\0b", "$share/g", "$share//a", "$share/+/a"])
def test_malformed_mqtt_filters_are_told_and_match_nothing(text):
    assert not valid([text], "mqtt")[0]
    assert len(match([text], "mqtt", ["a", "a#", "b", text])) == 0


@pytest.mark.parametrize("text", ["a.>.b", "", ".a", "a.", "a..b", "a b", ">.a"])
def test_malformed_nats_filters_are_told_and_match_nothing(text):
    assert not valid([text], "nats")[0]
    assert len(match([text], "nats", ["a", "a.b", text])) == 0


def test_strings_may_come_in_lists_numpy_or_arrow_and_be_missing():
    for kind in (list, np.array, pa.array, lambda words: pa.chunked_array([words[:1], words[1:]])):
        assert match(kind(["a/+", "b"]), kind(["mqtt", "nats"]), kind(["b", "a/x"])).tolist() == [[0, 1], [1, 0]]
    assert match(pa.array(["#", None]), "mqtt", pa.array([None, "x"])).tolist() == [[0, 1]]
    assert match([], "mqtt", ["a"]).shape == match(["#"], "mqtt", []).shape == (0, 2)
    assert valid([], []).tolist() == []


def test_a_dialect_that_nobody_speaks_is_refused_with_those_there_are():
    with pytest.raises(Unknown, match="mqtt"):
        match(["a"], "mqt", ["a"])
    with pytest.raises(ValueError, match="for each of 2 filters"):
        valid(["a", "b"], ["mqtt"])


def test_a_very_deep_name_is_matched_like_any_other():
    deep = "/".join("a" * 3000)
    assert match([deep, deep + "/#", "+/" + deep[2:], "#"], "mqtt", [deep, "a"]).tolist() == [
        [0, 0], [1, 0], [2, 0], [3, 0], [3, 1]
    ]  # fmt: skip


@given(names(["", "a", "+", "#"], "/"), names(["a", "b b", "$"], "."))
def test_a_shared_filter_is_put_together_as_it_was_taken_apart(text, group):
    groups, inner = shared([f"$share/{group}/{text}", text])
    assert (groups.to_pylist(), inner.to_pylist()) == (
        ([group, None], [text, text]) if text else ([None, None], [f"$share/{group}/", ""])
    )


def test_what_only_looks_shared_is_left_alone():
    odd = ["$share/g", "$share//a", "$share/g+/a", "$shared/g/a", "x/$share/g/a", None]
    groups, inner = shared(odd)
    assert groups.to_pylist() == [None] * 6
    assert inner.to_pylist() == odd


@given(
    st.lists(st.none() | names(["_INBOX", "$JS", "$SYS", "a", "", UUID, UUID.replace("-", "").upper(), "ab-" + UUID]))
)
def test_collapsing_twice_is_collapsing_once(found):
    once = collapse(pa.array(found, pa.string()))
    assert collapse(once).equals(once)
    assert once.is_null().to_pylist() == [topic is None for topic in found]
    for before, after in zip(found, once.to_pylist(), strict=True):
        assert before is None or not any(level in after.split("/") for level in (UUID, UUID.upper()))


@given(st.lists(names(["_INBOX", "$JS", "$SYS", "a", UUID, "+", "#", "*"])), topics)
def test_names_with_nothing_to_fold_stay_as_they_are(folded, plain):
    assert collapse(pa.array(plain, pa.string())).to_pylist() == plain
    assert len(collapse(pa.array(folded, pa.string()))) == len(folded)


def test_names_that_explode_are_folded():
    folds = {
        "_INBOX.xyz.1": "_INBOX.>",
        "_INBOX.a\nb": "_INBOX.>",
        "$JS.API.STREAM.INFO.X": "$JS.>",
        "$SYS/broker/load": "$SYS/#",
        f"dev/{UUID}/temp": "dev/{uuid}/temp",
        f"{UUID}/{UUID}/{UUID}": "{uuid}/{uuid}/{uuid}",
        f"dev.{UUID.upper()}": "dev.{uuid}",
        f"{UUID.replace('-', '')}.x/y": "{uuid}.x/y",
        "_INBOX": "_INBOX",
        "my_INBOX.x": "my_INBOX.x",
        "$SYS.ACCOUNT": "$SYS.ACCOUNT",
        f"dev-{UUID}": f"dev-{UUID}",
        UUID[:-1]: UUID[:-1],
    }
    assert collapse(pa.array(folds)).to_pylist() == list(folds.values())
    assert collapse(pa.chunked_array([list(folds)])).to_pylist() == list(folds.values())
    assert collapse(pa.array(list(folds), pa.large_string())).type == pa.large_string()
    assert collapse(pa.array(list(folds)).dictionary_encode()).to_pylist() == list(folds.values())
    assert collapse(pa.nulls(2)).to_pylist() == [None, None]


def test_collapsed_filters_still_match_collapsed_topics():
    found = pa.array(["_INBOX.abc.1", f"dev.{UUID}.x", "$JS.ACK.1"])
    asked = pa.array(["_INBOX.abc.*", f"dev.{UUID}.*", "dev.*.x", "$JS.ACK.*", ">"])
    assert match(collapse(asked), "nats", collapse(found)).tolist() == match(asked, "nats", found).tolist()


def veiled(words, separators="/."):
    return pseudonyms(pa.array(words, pa.string()), b"secret", separators).to_pylist()


@given(filters, st.one_of(topics, wild_topics))
def test_pseudonymised_filters_match_pseudonymised_topics_as_before(rows, found):
    good = [row for row in rows if is_valid(*row)]
    text, dialect = columns(good)
    assert match(veiled(text), dialect, veiled(found)).tolist() == match(text, dialect, found).tolist()


@given(st.lists(st.none() | names(["", "a", "b", "$a", "+", "{uuid}"])), st.sampled_from(["", "/", "/.", "./"]))
def test_names_are_as_distinct_as_before_and_missing_ones_stay(words, separators):
    hidden = veiled(words, separators)
    assert len(set(hidden)) == len(set(words))
    assert [word is None for word in hidden] == [word is None for word in words]
    for word, other in zip(words, hidden, strict=True):
        assert word is None or [c for c in other if c in separators] == [c for c in word if c in separators]


def test_a_pseudonym_keeps_only_separators_wildcards_and_the_leading_dollar():
    a, b = veiled(["a", "b"])
    assert len(a) == 16
    assert veiled(["a/b.a", "a/+/#", "b.*.>", "/a/"]) == [f"{a}/{b}.{a}", f"{a}/+/#", f"{b}.*.>", f"/{a}/"]
    assert veiled(["$a/b", "b/$a"])[0] == f"${a}/{b}"
    assert veiled(["b/$a"])[0][17] != "$"
    assert veiled(["_INBOX.>"]) == [veiled(["_INBOX"])[0] + ".>"]
    assert "/" not in veiled(["a/b"], "")[0]


def test_another_key_gives_other_pseudonyms_and_no_key_is_refused():
    words = pa.array(["a", "b"])
    keys = [b"k", b"l", b"k" * 64, b"k" * 65, b"k" * 66]
    assert len({name for key in keys for name in pseudonyms(words, key).to_pylist()}) == 2 * len(keys)
    with pytest.raises(OverlaceError, match="need a key"):
        pseudonyms(words, b"")
