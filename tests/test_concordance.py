import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import concordance  # noqa: E402

LENGTHS = {
    ("CC12", "A1"): 21, ("OCBR07", "F3"): 28, ("PART10", "A1"): 18, ("PART10", "A2"): 19, ("PART10", "A3"): 33,
    ("PART10", "A4"): 38, ("TDCD17", "A1"): 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def known():
    return concordance.algorithms((ROOT / "docs/papers/algorithms.toml").read_text())


def test_every_line_of_a_built_algorithm_is_tagged_or_structure(known):
    assert concordance.faults(known, concordance.tags_in(ROOT), ROOT) == []


def test_the_page_is_up_to_date(known):
    written = (ROOT / "docs/concordance.md").read_text()
    assert written == concordance.page(known, concordance.tags_in(ROOT), ROOT)


def test_every_printed_algorithm_is_listed_with_all_its_lines(known):
    assert {(a.paper, a.key): len(a.lines) for a in known} == LENGTHS
    for each in known:
        assert set(each.structure) <= set(range(1, len(each.lines) + 1))


def test_an_untagged_line_and_a_tag_without_a_line_are_found(known, tmp_path):
    mesh = next(a for a in known if a.paper == "TDCD17")
    path = tmp_path / mesh.built
    path.parent.mkdir(parents=True)
    tags = "\n".join(f"step = {n}  # A1:{n}: a reason" for n in range(2, 8))
    path.write_text(tags)
    assert concordance.faults([mesh], concordance.tags_in(tmp_path), tmp_path) == []
    path.write_text(tags.replace("A1:5", "A1:99"))
    wrong = concordance.faults([mesh], concordance.tags_in(tmp_path), tmp_path)
    assert [line.partition(": ")[2] for line in wrong] == [
        "TDCD17 A1 has no line 99",
        "no step is tagged A1:5 (TDCD17: the client with the least q)",
    ]


def test_one_comment_may_hold_several_tags(tmp_path):
    path = tmp_path / "overlace/planners/channels/strategies.py"
    path.parent.mkdir(parents=True)
    path.write_text("left -= shared  # A3:14, A3:17\nname = 'A3:1'\n")
    assert set(concordance.tags_in(tmp_path)) == {("PART10", "A3", 14), ("PART10", "A3", 17)}


def test_the_reference_of_the_network_file_is_up_to_date():
    import network_file

    assert (ROOT / "docs/network-file.md").read_text() == network_file.page()
