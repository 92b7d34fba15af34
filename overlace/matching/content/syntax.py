"""Filters as text: `symbol = 'AAPL' and close >= 10.5 and name prefix 'A' and volume exists`.

Text stands in single quotes, a quote in it is doubled; an attribute whose name is not a plain word stands in double
quotes. The filter that matches every message is `true`. PADRES' own way of writing is read too:
`[class,eq,'STOCK'],[close,>,10],[symbol,str-prefix,'A']`.

Keeps: `parse_filter(format_filter(filter)) == filter`.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from overlace.errors import BadFilter
from overlace.matching.content.constraints import OPERATORS, Constraint, Filter, Operator, Value

ALL = "true"
"""How the filter is written that matches every message."""

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
TOKEN = re.compile(
    rf"""\s*(?:
    (?P<text>'(?:[^']|'')*')
  | (?P<name>"(?:[^"]|"")*")
  | (?P<number>{NUMBER})(?![\w.])
  | (?P<word>[^\W\d][\w.:/-]*)
  | (?P<sign><=|>=|!=|<>|==|=|<|>)
  | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
PADRES = re.compile(
    rf"""\s*\[\s*
    (?P<attribute>"[^"]*"|'[^']*'|[^\[\],'"]+?)\s*,\s*
    (?P<operator>[^\s\[\],'"]+)\s*
    (?:,\s*(?:(?P<text>'(?:[^']|'')*'|"[^"]*")|(?P<number>{NUMBER})(?=\s*\])|(?P<word>[^\[\],'"]*?))\s*)?
    \]\s*(?P<more>,|\Z)""",
    re.VERBOSE,
)
PADRES_OPERATORS: dict[str, Operator] = {
    "eq": "=", "neq": "!=", "isPresent": "exists", "str-lt": "<", "str-le": "<=", "str-gt": ">", "str-ge": ">=",
    "str-prefix": "prefix", "str-suffix": "suffix", "str-postfix": "suffix", "str-contains": "contains",
}  # fmt: skip
SIGNS: dict[str, Operator] = {"==": "=", "<>": "!="}
WORDS: dict[str, Operator] = {"prefix": "prefix", "suffix": "suffix", "contains": "contains", "exists": "exists"}
FLAGS = {"true": True, "false": False}
RESERVED = {*WORDS, *FLAGS, "and"}
KNOWN = {each for some in OPERATORS.values() for each in some}
LONG = 60
"""Characters of a filter that an error quotes."""


class Token(NamedTuple):
    """A piece of a filter: what it is, its text, and where it begins and ends."""

    kind: str
    text: str
    begin: int
    end: int


def parse_filter(text: str) -> Filter:
    """The filter that a text describes, in our own way of writing or PADRES'."""
    if text.lstrip().startswith("["):
        return _parse_padres(text)
    if not text.strip():
        raise BadFilter(f"an empty filter: write constraints, or {ALL} for every message")
    if text.strip().lower() == ALL:
        return ()
    constraints, at = [], 0
    while True:
        constraint, at = _parse_constraint(text, at)
        constraints.append(constraint)
        token = _token(text, at)
        if token.kind == "end":
            return tuple(constraints)
        if token.kind != "word" or token.text.lower() != "and":
            _refuse(text, token.begin, "'and' or the end")
        at = token.end


def format_filter(filter: Filter) -> str:
    """A filter as text."""
    return " and ".join(map(format_constraint, filter)) or ALL


def format_constraint(constraint: Constraint) -> str:
    """A constraint as text."""
    name = constraint.attribute
    word = TOKEN.fullmatch(name)
    if not (word and word["word"] == name) or name.lower() in RESERVED:
        name = '"' + name.replace('"', '""') + '"'
    parts = [name, constraint.operator]
    return " ".join(parts if constraint.value is None else [*parts, _format_value(constraint.value)])


def _format_value(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0")


def _parse_constraint(text: str, at: int) -> tuple[Constraint, int]:
    """(constraint, where it ends)."""
    name = _token(text, at)
    if name.kind not in ("word", "name") or (name.kind == "word" and name.text.lower() in RESERVED):
        _refuse(text, name.begin, 'the name of an attribute (in "double quotes" if it is not a plain word)')
    attribute = _unquote(name.text) if name.kind == "name" else name.text
    sign = _token(text, name.end)
    operator = WORDS.get(sign.text.lower()) if sign.kind == "word" else SIGNS.get(sign.text, sign.text)
    if operator not in KNOWN:
        _refuse(text, sign.begin, "an operator (= != < <= > >= prefix suffix contains exists)")
    if operator == "exists":
        return _make(text, name.begin, attribute, operator, None), sign.end
    token = _token(text, sign.end)
    return _make(text, name.begin, attribute, operator, _value(text, token)), token.end


def _value(text: str, token: Token) -> Value:
    if token.kind == "text":
        return _unquote(token.text)
    if token.kind == "number":
        return float(token.text)
    flag = FLAGS.get(token.text.lower()) if token.kind == "word" else None
    if flag is None:
        _refuse(text, token.begin, "a value: 'text' in single quotes, a number, true or false")
    return flag


def _parse_padres(text: str) -> Filter:
    constraints, at, more = [], 0, ","
    while more == ",":
        found = PADRES.match(text, at)
        if found is None:
            _refuse(text, at, "[attribute,operator,value]")
        attribute, given = found["attribute"].strip("'\""), found["operator"]
        operator = PADRES_OPERATORS.get(given, SIGNS.get(given, given))
        if operator not in KNOWN:
            expected = f"an operator ({' '.join(PADRES_OPERATORS)} = != < <= > >=)"
            _refuse(text, found.start("operator"), expected)
        value: Value | None = None
        if operator != "exists":  # PADRES writes a value of the attribute's type after isPresent, which means nothing
            value = _padres_value(found)
        constraints.append(_make(text, found.start("attribute"), attribute, operator, value))
        at, more = found.end(), found["more"]
    return tuple(constraints)


def _padres_value(found: re.Match[str]) -> Value | None:
    if found["text"]:
        return _unquote(found["text"])
    if found["number"]:
        return float(found["number"])
    return FLAGS.get(found["word"], found["word"]) or None if found["word"] != "false" else False


def _make(text: str, at: int, attribute: str, operator: object, value: Value | None) -> Constraint:
    try:
        return Constraint(attribute, operator, value)  # type: ignore[arg-type]
    except BadFilter as error:
        raise BadFilter(f"{error}, at character {at + 1} of {_quoted(text)}") from None


def _token(text: str, at: int) -> Token:
    found = TOKEN.match(text, at)
    if found is None:
        begin = at + len(text[at:]) - len(text[at:].lstrip())
        mark = text[begin]
        _refuse(text, begin, f"the {mark} that ends the quoted text" if mark in "'\"" else "a name, operator or value")
    kind = found.lastgroup or "end"
    return Token(kind, found[kind], found.start(kind), found.end())


def _unquote(text: str) -> str:
    mark = text[0]
    return text[1:-1].replace(mark + mark, mark)


def _refuse(text: str, at: int, expected: str) -> NoReturn:
    rest = text[at:]
    found = repr(rest if len(rest) <= LONG // 3 else f"{rest[: LONG // 3]}...") if rest else "the end"
    raise BadFilter(f"found {found} at character {at + 1} of {_quoted(text)}, expected {expected}")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= LONG else f"{text[:LONG]}...")
