"""What MkDocs builds the site from: docs/ as it is, the pages outside of it, and the reference, made when it is built.

A hook of mkdocs.yml. Links between our pages are those of the repository, so they work in a checkout too; here they are
turned to where the page is in the site. A link to a file of the code has no page, and shows its text alone. Whatever a
page types that the command line does not know is a warning, and with `strict` the build fails.
"""

from __future__ import annotations

import logging
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
import reference

ROOT = Path(__file__).parents[1]
GALLERY = "build/gallery"
OUTSIDE = ("benchmarks", "reproductions")
SINGLE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(<?([^)\s>]+)>?\)")
CODE_OR_LINK = re.compile(rf"^```.*?^```|{LINK.pattern}|`[^`\n]+`", re.DOTALL | re.MULTILINE)
LOG = logging.getLogger("mkdocs.plugins.overlace")


def place_of(path: str) -> str | None:
    """Where a file of the repository is in the site, if it is there; of a folder: its first page."""
    if path in SINGLE:
        return SINGLE[path]
    if (ROOT / path).is_dir():
        return place_of(f"{path}/README.md") if (ROOT / path / "README.md").exists() else None
    name = path.removeprefix("docs/")
    shown = path.startswith(("docs/", *(f"{each}/" for each in OUTSIDE))) and path.endswith((".md", ".svg", ".csv"))
    return name if shown and (ROOT / path).is_file() else None


def turned(text: str, source: str, place: str) -> str:
    """A page with its links as the site has them; code is left alone."""
    here = posixpath.dirname(source)

    def turn(found: re.Match[str]) -> str:
        picture, words, link = found.groups()
        if link is None or re.match(r"[a-z]+:|#", link):
            return found[0]
        path, hash_, part = link.partition("#")
        repo = posixpath.normpath(posixpath.join(here, path))
        target = place_of(repo)
        if target is None and repo.startswith("docs/gallery/"):
            target = repo.removeprefix("docs/") if (ROOT / GALLERY / posixpath.basename(repo)).exists() else None
            words = words if target else f"{words} (`make site` makes it)"
        if target is None:
            return words if not picture else found[0]
        return f"{picture}[{words}]({posixpath.relpath(target, posixpath.dirname(place) or '.')}{hash_}{part})"

    return CODE_OR_LINK.sub(turn, text)


def on_config(config: Any) -> Any:
    """List each command in the navigation."""
    (parts,) = (each["Reference"] for each in config.nav if "Reference" in each)
    (commands,) = (each["Commands"] for each in parts if "Commands" in each)
    commands += [{name: f"reference/commands/{name}.md"} for name in reference.children(reference.ROOT)]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages outside of docs/, the generated ones, and the reports of the gallery that were made."""
    for name, place in SINGLE.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text()))
    for folder in OUTSIDE:
        for path in sorted((ROOT / folder).rglob("*")):
            source = path.relative_to(ROOT).as_posix()
            if place_of(source) == source and not path.name.endswith(".notes.md"):
                files.append(File(source, str(ROOT), config.site_dir, config.use_directory_urls))
    for path in sorted((ROOT / GALLERY).glob("*.html")):
        files.append(File.generated(config, f"gallery/{path.name}", abs_src_path=str(path)))
    for place, text in reference.pages().items():
        files.append(File.generated(config, place, content=text))
    return files


FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s\">]+")


def on_post_page(output: str, page: Any, config: Any) -> str:
    """A page fetches nothing from elsewhere."""
    for found in FETCHED.findall(output):
        LOG.warning("%s: fetches %s", page.file.src_uri, found)
    return output


SOURCES = {place: source for source, place in SINGLE.items()}


def on_page_markdown(text: str, page: Any, config: Any, files: Any) -> str:
    """Turn the links of a page, and say what it types that does not exist."""
    place = page.file.src_uri
    if place.startswith("reference/"):
        return text
    source = SOURCES.get(place) or (place if place.startswith(OUTSIDE) else f"docs/{place}")
    for wrong in reference.check_commands(text) if place != "changelog.md" else ():
        LOG.warning("%s: %s", source, wrong)
    return turned(text, source, place)
