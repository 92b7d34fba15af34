"""Publications of PADRES as pairs in brackets: every line as a plain reader reads it."""

import io
import re
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlace.errors import BadTrace, Unknown
from overlace.ingest.content import attribute_of, content_of
from overlace.ingest.formats.padres_quotes import FORMAT
from overlace.ingest.lines import blocks
from overlace.ingest.options import Options
from overlace.ingest.sources import guess
from overlace.peek.peek import peek
from tests.engine import ingest_sources
from tests.ingest.logs import often
from tests.ingest.oracles import EPOCH, MICRO, _time

QUOTE = "[class,'STOCK'],[symbol,'AAPL'],[open,63.30],[high,64.25],[close,63.75],[volume,9000000],[date,'21-Dec-04']"
PAIR = re.compile(
    r"""[ \t]*\[[ \t]*([^\[\],]*?)[ \t]*,[ \t]*(?:'([^']*)'|"([^"]*)"|([^'"\] \t][^\]]*?|))[ \t]*\][ \t]*"""
)
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


FIELDS = {"symbol": "client", "date": "at"}


def options(**more):
    return FORMAT.settle(QUOTE.encode(), Options(map={"client": "symbol"}, **more).for_format(FORMAT))


def read(log, settled, size=1 << 20):
    """Offset -> (kind, reason, at, client, content by attribute)."""
    found = {}
    for batch in FORMAT.read(blocks(io.BytesIO(log), size=size), settled):
        batch.validate(full=True)
        for row in pa.Table.from_batches([batch]).to_pylist():
            values = {(*attribute_of(name),): row[name] for name in content_of(batch) if row[name] is not None}
            assert row["offset"] not in found
            found[row["offset"]] = (row["kind"], row["reason"], row["at"], row["client"], values)
    return found


def plain(line):
    """{attribute: (type, value, text)} of a line, or what is wrong with it; pair by pair."""
    found, at = {}, 0
    while True:
        pair = PAIR.match(line, at)
        if not pair or not pair[1]:
            return "not pairs of [attribute,value]"
        text = pair[2] if pair[2] is not None else pair[3]
        if text is not None:
            value = ("text", text, text)
        elif not pair[4]:
            return "not pairs of [attribute,value]"
        elif NUMBER.fullmatch(pair[4]):
            value = ("number", float(pair[4]), pair[4])
        elif pair[4].lower().lstrip("+-") == "nan":
            value = ("absent", None, "")
        elif pair[4].lower() in ("true", "false"):
            value = ("flag", pair[4].lower() == "true", pair[4])
        else:
            return "a value that is neither in quotes, a number nor true or false"
        if pair[1] in found:
            return "two values for one attribute"
        found[pair[1]] = value
        at = pair.end()
        if at == len(line):
            return found
        if line[at] != ",":
            return "not pairs of [attribute,value]"
        at += 1


names = st.sampled_from(["class", "symbol", "close", "date", "a b", "ä", "", "x'y"])
values = st.sampled_from(
    ["'AAPL'", '"B"', "''", "63.30", "-1e3", ".5", "5.", "+7", "true", "FALSE", "tru", "'a,b]'", "word", "", "'open",
     "1 2", "'ü'", "1_0", "nan", "-NaN", "nano", "'nan'"]
)  # fmt: skip
days = st.sampled_from(["'21-Dec-04'", "'3-jan-1999'", "'31-Feb-04'", "1103587200", "'never'", "''"])
pairs = st.builds(lambda name, value, gap: f"[{name}{gap},{gap}{value}]", names, values, st.sampled_from(["", " "]))
dated = st.builds(lambda day: f"[date,{day}]", days)
symbol = st.sampled_from(["[symbol,'AAPL']", "[symbol,7.0]", "[symbol,true]", "[symbol,'']", "[symbol,nan]"])
lines = st.one_of(
    st.builds(lambda who, some, day: ",".join([who, *some, day]), symbol, st.lists(pairs, max_size=3), dated),
    st.lists(pairs, max_size=4).map(",".join),
    st.sampled_from(["", QUOTE, QUOTE + ",", QUOTE + " ", "[[a,1]]", "[a,1][b,2]", "[a,1]]", "[a", "x", "[a,1];"]),
)


@often(150)
@given(st.lists(lines, min_size=1, max_size=6), st.sampled_from([1, 40, 1 << 20]))
@example([QUOTE], 7)
@example(["[symbol,'A'],[symbol,'A'],[date,'1-Jan-04']", "[symbol,'A'],[x,1],[date,'1-Jan-04'],[x,1]"], 1 << 20)
def test_every_line_is_read_as_a_plain_reader_reads_it(text, size):
    log = "\n".join(text).encode() + b"\n"
    found, offset = read(log, options(), size), 0
    for line in text:
        kind, reason, at, client, content = found.pop(offset)
        offset += len(line.encode()) + 1
        expected = plain(line)
        if not line.strip():
            assert (kind, reason) == ("ignored", "blank")
        elif isinstance(expected, str):
            assert (kind, reason) == ("bad", expected)
        else:
            who, when = (expected.get(name, ("absent", None, "")) for name in ("symbol", "date"))
            fine = who[2] != "" and who[0] in ("text", "number") and when[0] in ("text", "number")
            try:
                time = _time(when[2], "s")
            except ValueError:
                fine = False
            assert kind == ("message" if fine else "bad")
            if fine:
                assert content == {(each[0], name): each[1] for name, each in expected.items() if each[0] != "absent"}
                whole = re.fullmatch(r"(-?[0-9]+)\.0*", who[2]) if who[0] == "number" else None
                assert client == (whole[1] if whole else who[2])
                assert (at - EPOCH) // MICRO == time
    assert not found


def test_an_attribute_that_is_not_a_number_is_absent_and_its_type_a_number():
    log = b"[symbol,'A'],[close,nan],[date,'21-Dec-04']\n"
    ((kind, *_, content),) = read(log, options()).values()
    assert (kind, set(content)) == ("message", {("text", "symbol"), ("text", "date")})
    settled = FORMAT.settle(log, Options(map={"client": "symbol"}).for_format(FORMAT))
    assert settled["types"]["close"] == "number"


def test_a_quote_is_a_message_with_all_its_pairs_as_content():
    ((kind, _, at, client, content),) = read(QUOTE.encode(), options()).values()
    assert (kind, at, client) == ("message", datetime(2004, 12, 21, tzinfo=UTC), "AAPL")
    assert content["number", "close"] == 63.75
    assert content["text", "class"] == "STOCK"
    assert len(content) == 7
    ((*_, fewer),) = read(QUOTE.encode(), options(content=("close", "volume:text"))).values()
    assert fewer == {("number", "close"): 63.75, ("text", "volume"): "9000000"}


def test_types_are_those_of_the_first_lines_and_nothing_is_taken_for_a_field_unasked():
    sample = b"[symbol,'A'],[count,3],[to,'x'],[date,'1-Jan-04']\n[symbol,4],[count,'many'],[date,'1-Jan-04']"
    settled = FORMAT.settle(sample, Options(map={"client": "symbol"}).for_format(FORMAT))
    assert settled["types"] == {"symbol": "text|number", "count": "text|number", "to": "text", "date": "text"}
    assert settled["mapping"] == {"at": ["date"], "client": ["symbol"]}
    assert settled["unused"] == []


@pytest.mark.parametrize(
    ("given", "line", "what"),
    [
        ({}, QUOTE, "--map client=symbol"),
        ({"client": "symbol"}, "[symbol,'A'],[close,1]", "--map at=ATTRIBUTE"),
        ({"client": "symbl"}, QUOTE, "Nearest: symbol"),
        ({"client": "symbol", "at": "dat"}, QUOTE, "Nearest: date"),
    ],
)
def test_who_publishes_and_when_must_be_said_in_one_line(tmp_path, given, line, what):
    (tmp_path / "AAPL").write_text(line + "\n")
    with pytest.raises((BadTrace, Unknown), match=re.escape(what)) as error:
        ingest_sources([str(tmp_path / "AAPL")], str(tmp_path / "trace"), options=Options(map=given))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "trace" / "manifest.json").exists()


def test_the_format_is_told_by_its_first_bytes_and_lists_of_json_are_not_it():
    assert guess(QUOTE.encode()) == "padres-quotes"
    for other in (b'["a",1]\n["b",2]\n', b"[1,2]\n", b'[{"a":1}]', b"[a]\n", b"2011-03-01 [class,'STOCK']\n"):
        assert guess(other) != "padres-quotes"


def test_peek_recognises_quotes_and_prints_the_command_that_reads_them(tmp_path):
    folder = tmp_path / "quotes"
    folder.mkdir()
    for symbol in ("AAPL", "MANC"):
        (folder / symbol).write_text(QUOTE.replace("AAPL", symbol) + "\n" + QUOTE.replace("21", "22") + "\n")
    found = peek([str(folder)])
    (command,) = found.commands
    assert found.format == "padres-quotes"
    assert not found.problem
    assert "--map client=symbol" in command.command
    assert "--map at=date" in command.command
    assert command.counts["messages"] == 4
    assert {each.column: each.field for each in found.columns if each.field != "content"} == FIELDS
