"""What is printed is what the listed changes save: counted again from the raw log, by no code of a planner's."""

import json
import random

import pytest

from overlace.errors import NothingBetter
from overlace.ingest.tables import add_tables
from overlace.limits import Goal, Limits
from overlace.optimize.words import headline
from overlace.verbs import optimize
from tests.engine import ingest_sources

HOUR, START = 3600, 1_767_571_200
BROKERS = [f"b{i}" for i in range(6)]
LINKS = [(f"b{i}", f"b{i + 1}", 1 + i % 3) for i in range(5)]
OTHERS = [("b0", "b3", 2), ("b1", "b4", 1), ("b2", "b5", 2)]


def log_of(seed):
    """Messages of four days among groups of clients; some clients come up late."""
    rng = random.Random(seed)
    home = {f"c{i}": rng.choice(BROKERS) for i in range(40)}
    rows = []
    for k in range(1200):
        late = k > 700
        sender = rng.randrange(40 if late else 28)
        peers = [c for c in range(sender % 4, 40 if late else 28, 4) if c != sender]
        to = sorted({f"c{c}" for c in rng.sample(peers, rng.randint(1, 3))})
        name = f"c{sender}"
        rows.append({"at": START + k * 288, "client": name, "broker": home[name], "receivers": to, "topic": "t"})
    return rows, home


def paid(rows, home, links):
    """Messages over the links that join sender and receivers, each at its cost."""
    near = {b: [] for b in BROKERS}
    for left, right, cost in links:
        near[left].append((right, cost))
        near[right].append((left, cost))

    def below(broker, above, wanted):
        """(cost of what is needed below, whether anything is)."""
        cost, needed = 0, broker in wanted
        for other, price in near[broker]:
            if other != above:
                more, there = below(other, broker, wanted)
                cost += more + price * there
                needed |= there
        return cost, needed

    return sum(
        below(home[row["client"]], None, {home[c] for c in (row["client"], *row["receivers"])})[0] for row in rows
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_headline_is_what_the_listed_changes_save(tmp_path, seed):
    rows, home = log_of(seed)
    log, table = tmp_path / "log.jsonl", tmp_path / "links.csv"
    seen = [{"at": START - 60 + i, "client": c, "broker": b, "receivers": []} for i, (c, b) in enumerate(home.items())]
    log.write_text("".join(json.dumps(row) + "\n" for row in [*seen, *rows]))
    lines = [f"{a},{b},{cost},{wired}\n" for own, wired in ((LINKS, "true"), (OTHERS, "false")) for a, b, cost in own]
    table.write_text("left,right,cost,wired\n" + "".join(lines))
    ingest_sources([str(log)], str(tmp_path / "trace"))
    add_tables([str(table)], "links", str(tmp_path / "trace"), {})
    limits = Limits(budget=8, sent_cap=0.0, handled_cap=0.0)
    try:
        (part,) = optimize(str(tmp_path / "trace"), tmp_path / "run", limits, Goal(effort=0)).verdicts
    except NothingBetter as error:
        (part,) = error.result.verdicts

    document = json.loads((part.folder / "plan.json").read_text())
    then, wired = dict(home), {(a, b) for a, b, _ in LINKS}
    for step in document["steps"]:
        for change in step["changes"]:
            pair = change["left"], change["right"]
            if change["facet"] == "placement" and change["action"] == "add":
                then[pair[0]] = pair[1]
            elif change["facet"] == "tree":
                (wired.add if change["action"] == "add" else wired.discard)(tuple(sorted(pair)))
    after = [link for link in [*LINKS, *OTHERS] if link[:2] in wired]
    held_out = [row for row in rows if row["at"] * 10**6 >= document["judged"]["held_out"][0]]
    before, left = paid(held_out, home, LINKS), paid(held_out, then, after)
    assert (part.before, part.after) == (before, left)
    assert part.saving.share == pytest.approx(1 - left / before)
    assert before != left
    moves, links = sum(then[c] != home[c] for c in home), len(wired - {link[:2] for link in LINKS})
    said = headline(part.document)
    assert f"move {moves} client" in said or not moves
    assert f"change {links} link" in said or not links
    assert f": {abs(1 - left / before):.1%} {'less' if left < before else 'more'} on held-out traffic" in said
