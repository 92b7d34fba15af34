"""What no command and no public name leads to is found, and there is none of it in the package."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import reached  # noqa: E402

PLANTED = {
    "overlace/planners/tree/cost.py": "\n\ndef planted():\n    return planted_too\n\n\nplanted_too = 1\n",
    "overlace/planners/joint/planted.py": "from overlace.catalog import PLANNERS\n",
    "overlace/model/plan.py": "\n\nclass Planted:\n    pass\n",
    "overlace/cli/options.py": "\n\n@cache\ndef planted():\n    return planted()\n",
}
METHOD = "    def planted(self) -> int:\n        return len(self)\n\n    def first(self"


@pytest.fixture
def tree(tmp_path):
    """The package and its pages, to plant something in."""
    shutil.copytree(ROOT / "overlace", tmp_path / "overlace", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for name in ("README.md", "Makefile"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_all_of_the_package_is_reached():
    assert reached.unreached(ROOT) == []


def test_what_is_planted_is_found_wherever_it_is(tree):
    for path, text in PLANTED.items():
        with (tree / path).open("a") as file:
            file.write(text)
    plan = tree / "overlace/model/plan.py"
    plan.write_text(plan.read_text().replace("    def first(self", METHOD, 1))
    assert reached.unreached(tree) == [
        "overlace.cli.options.planted",
        "overlace.model.plan.Planted",
        "overlace.model.plan.Steps.planted",
        "overlace.planners.joint.planted",
        "overlace.planners.tree.cost.planted",
        "overlace.planners.tree.cost.planted_too",
    ]


def test_a_planner_that_is_taken_out_of_the_catalog_is_found_with_what_only_it_calls(tree):
    catalog = tree / "overlace/catalog.py"
    lines = [line for line in catalog.read_text().splitlines() if "SemCast" not in line]
    catalog.write_text("\n".join(lines))
    found = reached.unreached(tree)
    assert "overlace.planners.channels.semcast" in found
    assert all(".planners.channels." in each or ".arrays." in each for each in found)


def test_what_a_page_imports_or_names_with_its_module_is_public(tree):
    with (tree / "overlace/arrays/pairs.py").open("a") as file:
        file.write("\n\ndef planted():\n    return other()\n\n\ndef other():\n    return 1\n")
    assert reached.unreached(tree) == ["overlace.arrays.pairs.other", "overlace.arrays.pairs.planted"]
    page = tree / "docs/faq.md"
    for said in ("Call `overlace.arrays.pairs.planted`.", "```python\nfrom overlace.arrays.pairs import planted\n```"):
        page.write_text(said)
        assert reached.unreached(tree) == []
