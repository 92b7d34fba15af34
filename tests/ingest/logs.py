"""Logs as they are found: good lines, and lines that are broken in every way there is."""

import json
import os

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from overlace.ingest.events import EVENT, NAME
from overlace.ingest.fields import COMMON

PLAIN = os.environ.get("NUMBA_DISABLE_JIT") == "1"


def with_text_names(batches):
    """Events as a table with names as text."""
    whole = pa.Table.from_batches(batches, EVENT)
    text = {NAME: pa.string(), pa.list_(NAME): pa.list_(pa.string())}
    return whole.cast(pa.schema([each.with_type(text.get(each.type, each.type)) for each in whole.schema]))


def often(examples):
    """So many examples; few where kernels run as plain Python."""
    return settings(max_examples=max(examples // 10, 5) if PLAIN else examples)


def ingested(examples):
    """So many examples of whole ingests with `make test-long`, and few with `make test`."""
    return settings(max_examples=examples if "OVERLACE_RANDOM" in os.environ else max(examples // 10, 4))


def mostly(usual, rare, times=9):
    """The usual, and now and then something rare."""
    return st.sampled_from([True] * times + [False]).flatmap(lambda fine: usual if fine else rare)


START = 1_767_571_200  # a Monday
NAMES = [name for names in COMMON.values() for name in names]
TEXTS = [
    "", " ", "a", "b", "plc2", "fab/4/temp", "a,b", "a;b", "a|b", "a b", "a\tb", " a ", "7", "7.0", "ä", "\U0001f600",
    "\u2028", "\x85", "\ufeff", "x" * 300, "null", "None", "-", '"', "\\", "a\"b", "2026-01-05", "12345678901234567",
    "_INBOX.q7", "a\x7f",
]  # fmt: skip
TIMES = [
    str(START), f"{START}.5", f"{START}.123456789", f"{START}000", f"{START}000000", f"{START}000000000", "0", "-1",
    "-0.0000005", "1.7675712e9", "17675712000000000000e-10", "0.00000000000000000000000000017675712e37",
    "1e300", "1e-300",
    "9223372036854775807", "9223372036854775808", "1" * 30, "-2208988800", "-2208988801", "7258118399.999999",
    "7258118400", "2026-01-05T08:00:00Z", "2026-01-05 08:00:00", "2026-01-05", "2026-01-05T08:00",
    "2026-02-29T00:00:00Z",
    "2024-02-29t23:59:59.999999999z", "2026-01-05T08:00:00,5+01:00", "2026-01-05T08:00:00 -0130",
    "2026-01-05T08:00:00+24",
    "2026-01-05T24:00:00Z", "2026-01-05T08:00:60Z", "2026-13-05", "0000-01-01", "1899-12-31T23:59:59Z", "1900-01-01",
    "2199-12-31T23:59:59.9999999Z", "2200-01-01", "2026-01-05T08", "2026-1-5", "20260105",
    "2026-01-05T08:00:00.1234567890Z",
    "2026-01-05 08:00:00:468", "2026-01-05T08:00:00:5Z", "2026-01-05T08:00+01:30", "2026-01-05T08:00:00:",
    "2026-01-05T08:00:00:468:1",
    "21-Dec-04", "1-jan-1999", "29-Feb-03", "31-DEC-68", "1-Jan-69", "0-Jan-04", "A-Jan-04", "5-Jam-04", "05-Jan-026",
    "21-Dec-04T08:00", "21 Dec 04", "1-Jan-2200", "005-Jan-04",
    "never", "1_000", "0x10", "٣", "inf", "NaN", "1e", "1e+", ".5", "5.", ".", "+5", "--5", "1e99999999999999999999",
    "1e-99999999999999999999", " 1767571200 ", "1.7e9 ", "2026-01-05T08:00:00Z ", "2026-01-05T08:00:00+01:",
    "2026-01-05T", "2026-01-05T08:00:00.", "2026-01-05T08:00:00+01:60", "-000", "00000000000000000000001767571200",
]  # fmt: skip
WHOLE = [
    "0", "4", "4.0", "4.5", "1e3", "1.5e1", "15e-1", "150e-1", "-1", "-0", "-1e300", "2147483647",
    "2147483648", "1e300",
    "1e-300", "9007199254740992", "9007199254740993", "9223372036854775808", "1" * 40,
    "5.0000000000000000000000000001",
    "5.0000000000000000000000000000", "50000000000000000000000e-22", "50000000000000000000001e-22", "four", "", " 7 ",
]  # fmt: skip


def is_json_number(text):
    try:
        json.loads(text, parse_constant=lambda _: 1 / 0, parse_int=str, parse_float=str)
    except (ValueError, ZeroDivisionError):
        return False
    return text.strip() == text and text[0] in "-0123456789"


def cased(names):
    return st.builds(lambda name, how: how(name), names, st.sampled_from([str, str, str, str.upper, str.title]))


# --- JSON lines ----------------------------------------------------------------------------------------

scalars = st.one_of(
    st.sampled_from(TEXTS + TIMES + WHOLE).map(json.dumps),
    st.sampled_from(TEXTS).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from([each for each in TIMES + WHOLE if each and is_json_number(each)]),
    st.sampled_from(["null", "true", "false", r'"\u0061"', r'"\ud83d\ude00"', r'"\/\b\f\n\r\t\\\""', r'"\u0000"']),
)
halves = st.sampled_from([r'"\ud83d"', r'"\udc00\ud800"', r'"\ud800\u0061"', r'"\ud83d\n"'])
no_values = st.sampled_from(
    ['"\\u00"', '"\\x"', '"\t"', '"\x01"', "NaN", "Infinity", "01", "+1", "1.", "nul", "-", "", "truex"]
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: f"[{','.join(each)}]"),
        st.lists(st.tuples(st.sampled_from(["a", "to", "client"]), inner), max_size=2).map(
            lambda each: "{" + ",".join(f'"{name}": {value}' for name, value in each) + "}"
        ),
    ),
    max_leaves=4,
)
deep = st.sampled_from([2, 63, 64, 65, 66, 2000]).flatmap(
    lambda n: st.sampled_from(["[" * n + "]" * n, '{"a":' * n + "1" + "}" * n, "[" * n, "[" * n + "1" + "]" * (n - 1)])
)
names = st.one_of(
    cased(st.sampled_from(NAMES)), cased(st.sampled_from(NAMES[:20])), st.sampled_from(["x", "", "ſubject"])
)
written_names = st.one_of(
    names.map(json.dumps), names.map(lambda name: '"' + "".join(f"\\u{ord(c):04x}" for c in name) + '"'),
    st.just(r'"\ud800"'),
)  # fmt: skip
blanks = st.sampled_from(["", "", "", " ", "\t "])


any_value = mostly(values, st.one_of(deep, no_values, halves, halves))


@st.composite
def objects(draw):
    """An object with a time and a client more often than not, and anything else."""
    good_times = st.sampled_from([f"{START}", '"2026-01-05T08:00:00Z"', f'"{START}.25"'])
    good_names = st.sampled_from(['"a"', '"b"', "7", "7.0", '"c1"', "12345678901234567", "1.5"])
    lists = st.sampled_from(
        ["[]", '["a","b"]', '["a", 7, null, "", "a"]', '["a\\n"]', "null", '"a"', '"a,b"', "[1.0,2]"]
    )
    likely = [
        ("at", good_times),
        ("client", good_names),
        ("topic", good_names),
        ("receivers", lists),
        ("bytes", st.just("4")),
    ]
    members = [
        (json.dumps(name), draw(value)) for name, value in likely if draw(mostly(st.just(True), st.just(False), 19))
    ]
    members += draw(st.lists(st.tuples(written_names, any_value), max_size=3))
    members = draw(st.permutations(members))
    gap = draw(blanks)
    return "{" + f"{gap},{gap}".join(f"{name}{gap}:{gap}{value}" for name, value in members) + "}" + gap


# --- tables --------------------------------------------------------------------------------------------

cells = st.one_of(
    st.sampled_from(TEXTS + TIMES + WHOLE),
    st.sampled_from(TEXTS + TIMES).map(lambda text: '"' + text.replace('"', '""') + '"'),
    st.sampled_from(['"', '""', '"a', 'a"', '"a"b', '"a" ', ' "a"', '"a""', '""""', '"a\n', "a'b", '"a,b"', '"a;b"']),
)


def rows_of(columns, delimiter):
    good = {
        "at": st.sampled_from([str(START), "2026-01-05T08:00:00Z", f"{START}.25"]), "client": st.sampled_from("abc7"),
        "receiver": st.sampled_from(["a", "b", ""]), "receivers": st.sampled_from(["a", "", "a b"]),
        "bytes": st.just("4"),
    }  # fmt: skip
    field_of = {name: field for field, listed in COMMON.items() for name in listed}
    likely = [mostly(good.get(field_of.get(name.strip().lower()), st.sampled_from("abc")), cells) for name in columns]
    whole = st.tuples(*likely).map(delimiter.join)
    ragged = st.lists(cells, max_size=len(columns) + 1).map(delimiter.join)
    return mostly(whole, ragged)


# --- files ---------------------------------------------------------------------------------------------


@st.composite
def broken(draw, lines):
    """A line as bytes, with some of them dropped, doubled, exchanged or put in."""
    line = bytearray(draw(lines).encode("utf-8", "surrogatepass").replace(b"\n", b" "))
    for _ in range(draw(st.sampled_from([0] * 9 + [1, 1, 2, 5]))):
        at = draw(st.integers(0, len(line)))
        piece = draw(
            st.sampled_from(
                [b"", b'"', b",", b"{", b"}", b"[", b"]", b":", b"\\", b"\r", b"\0", b"\xff", b"\xc3",
                b"\xed\xa0\x80",
                 b"\xe2\x80\xa8", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\x01", b"\x0b", b"\xef\xbb\xbf", b" ",
                 b"\t", b"7", b"e"]
            )
        )  # fmt: skip
        line[at : at + draw(st.sampled_from([0, 0, 1, 2, len(line)]))] = piece
    return bytes(line).replace(b"\n", b" ") + draw(st.sampled_from([b""] * 8 + [b"\r", b"\r\r", b" \r"]))


@st.composite
def files(draw, lines, head=None):
    """A file of such lines, after some that are fine if any are given."""
    odd = st.sampled_from([b"", b" ", b"\t", b"\r", b"null", b"[]", b"{}", b"{", b"[1]", b'"', b"\xef\xbb\xbf"])
    body = draw(st.lists(mostly(broken(lines), odd), max_size=8))
    if head is not None:
        again = draw(st.lists(st.integers(0, len(body)), max_size=1))
        for at in again:
            body.insert(at, head)
        body.insert(0, head)
    mark = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    return mark + b"\n".join(body) + draw(st.sampled_from([b"\n", b"", b"\n\n", b"\r\n"]))
