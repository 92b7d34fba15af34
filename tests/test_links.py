"""Every relative link and picture in our pages leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "docs", "reproductions")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])


def broken_links(text, folder):
    """The relative links of a page that lead nowhere; code is no link, and `make site` makes the gallery's reports."""
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(<?([^)\s>]+)", prose) + re.findall(r"(?:src|href)=\"([^\"]+)\"", prose)
    paths = {link: link.partition("#")[0] for link in links if not re.match(r"[a-z]+:", link)}
    return [
        link
        for link, path in paths.items()
        if path and not path.startswith("gallery/") and not (folder / path).exists()
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_are_there(page):
    assert broken_links(page.read_text(encoding="utf-8"), page.parent) == []


def test_a_link_that_leads_nowhere_is_noticed(tmp_path):
    (tmp_path / "there.md").touch()
    text = "![picture](gone.svg) [page](there.md#part) [above](#part) [web](https://x.org) `[code](no.md)`"
    assert broken_links(text, tmp_path) == ["gone.svg"]
    assert broken_links('<img src="gone.png"> <a href="there.md">', tmp_path) == ["gone.png"]
