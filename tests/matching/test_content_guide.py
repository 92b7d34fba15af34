"""The examples of docs/content.md run as they stand, and what it says about covering is so."""

import re
from pathlib import Path

from overlace.matching.content import matcher, segment
from overlace.matching.content.filters import covers, parse_filter

PAGE = (Path(__file__).parents[2] / "docs" / "content.md").read_text()


def test_the_examples_run_as_they_stand():
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
    exec(compile(code, "content.md", "exec"), {})


def test_the_covering_that_is_said_to_be_missed_is_missed():
    assert "`s > 'a'` covers `s >= 'a' and s != 'a'`" in PAGE
    assert not covers(parse_filter("s > 'a'"), parse_filter("s >= 'a' and s != 'a'"))


def test_the_sizes_are_those_of_the_code():
    assert f"{segment.BITS} bits a filter" in PAGE
    assert f"a tail of at most {matcher.TAIL} " in PAGE
