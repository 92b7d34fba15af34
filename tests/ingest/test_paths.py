"""Members inside objects: a path reads what a member of its own with the same value would give."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import Unknown
from overlace.ingest.formats import jsonl
from overlace.ingest.options import Options
from tests.ingest.logs import START, often, with_text_names

PATH, DEEP = "user.name", "user.at.place"

values = st.sampled_from(["a", "b", "", 7, 7.0, True, None, ["a"], {"x": 1}, "\ud800"])
inner = st.dictionaries(st.sampled_from(["name", "at", "at.place", "x"]), st.one_of(values, st.just({"place": "p"})))
lines = st.fixed_dictionaries(
    {"at": st.sampled_from([START, "never", {"at": 1}])},
    optional={
        "user": st.one_of(values, inner, inner),
        PATH: values,
        "user.at": st.one_of(values, st.just({"place": "q"})),
        DEEP: values,
        "new": st.just(1),
        "deep": st.sampled_from(["[" * 70 + "]" * 70, "{}"]).map(json.loads),
    },
)


def value(row, path):
    """By definition: the member that is called so, else what the rest leads to inside a member."""
    if not isinstance(row, dict):
        return None
    if row.get(path) is not None:
        return row[path]
    inside = (value(row.get(path[:i]), path[i + 1 :]) for i, each in enumerate(path) if each == ".")
    return next((each for each in inside if each is not None), None)


def read(rows, **options):
    log = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    settled = jsonl.FORMAT.settle(log, Options(unit="s", **options).for_format(jsonl.FORMAT))
    return with_text_names(list(jsonl.FORMAT.read(iter([(0, log)]), settled))).sort_by("offset")


@often(300)
@given(st.lists(lines, max_size=8))
def test_a_path_reads_what_a_member_of_its_own_would_give(rows):
    first = {"at": START, "client": "c", "topic": "t", "user": {"name": "n", "at": {"place": "p"}}}
    rows = [first, *rows]
    found = read(rows, map={"client": PATH, "topic": DEEP}, where=("user.at.place!=q",))
    plain = [{**row, "userb": value(row, PATH), "usera": value(row, DEEP)} for row in rows]
    expected = read(plain, map={"client": "userb", "topic": "usera"}, where=("usera!=q",))
    shown = [str(each).replace(PATH, "userb").replace(DEEP, "usera") for each in found["reason"].to_pylist()]
    assert shown == [str(each) for each in expected["reason"].to_pylist()]
    for name in ("kind", "at", "client", "topic"):
        assert found[name].to_pylist() == expected[name].to_pylist(), name


def test_a_path_that_leads_nowhere_is_one_clear_line():
    rows = [{"at": START, "properties": {"user": "a", "kind": "x"}}]
    with pytest.raises(
        Unknown, match="no member of the first lines is called 'properties.usr'. Nearest: properties.user"
    ):
        read(rows, map={"client": "properties.usr"})
    with pytest.raises(Unknown, match="is called 'properties.kinds'. Nearest: properties.kind"):
        read(rows, map={"client": "properties.user"}, where=("properties.kinds=x",))
    for field in ("topic", "bytes", "receiver"):
        with pytest.raises(Unknown, match="is called 'properties.usr'. Nearest: properties.user"):
            read(rows, map={"client": "properties.user", field: "properties.usr"})
