"""What is printed is what the listed changes save: counted again from the raw log, by no code of a planner's."""

import json
import random

import pytest

from overlace.errors import NothingBetter
from overlace.ingest.tables import add_tables
from overlace.limits import Goal, Limits
from overlace.optimize.words import headline, label_of
from overlace.verbs import optimize
from tests.engine import ingest_sources

START, DAY = 1_767_571_200, 86_400
BROKERS = [f"b{i}" for i in range(6)]
WIRED = {(f"b{i}", f"b{i + 1}"): (1 + i % 3, 700 + 900 * i) for i in range(5)}
OTHERS = {("b0", "b3"): (2, 1100), ("b1", "b4"): (1, 5100), ("b2", "b5"): (2, 300)}
LINKS = {**WIRED, **OTHERS}
REGION = {f"c{i}": f"r{i % 3}" for i in range(48)}
ACCESS = {(r, b): (3 * (int(b[1]) // 2 != int(r[1])), 400 * abs(int(b[1]) - 2 * int(r[1]))) for r in ("r0", "r1", "r2")
          for b in BROKERS}  # fmt: skip
LATE = 36
"""Clients from this one on come up after the cut."""


def log_of(seed):
    """Weighted messages of sizes over 20 days, most within a region, few at weekends; some clients come up late."""
    rng = random.Random(seed)
    home = {c: rng.choice(BROKERS) for c in REGION}
    rows = []
    for k in range(1600):
        at = START + k * 20 * DAY // 1600
        if (at // DAY + 3) % 7 >= 5 and rng.random() < 0.8:
            continue
        clients = len(REGION) if k > 1200 else LATE
        sender, local = rng.randrange(clients), rng.random() < 0.75
        peers = range(sender % 3, clients, 3) if local else range(clients)  # now and then it writes to itself
        to = sorted({f"c{c}" for c in rng.sample(peers, rng.randint(1, 3))})
        row = {"at": at, "client": f"c{sender}", "receivers": to, "topic": "t"}
        rows.append(row | {"weight": rng.randint(1, 4), "bytes": rng.randint(1, 900)})
    return rows, home


def paid(rows, home, wired, objective, access):
    """What rows pay by an objective, over the links that join sender and receivers or on the way to each of them."""
    near = {b: [] for b in BROKERS}
    for left, right in wired:
        near[left].append((right, (left, right)))
        near[right].append((left, (left, right)))

    def joining(broker, above, wanted):
        """(links needed below, whether anything is)."""
        found, needed = [], broker in wanted
        for other, link in near[broker]:
            if other != above:
                more, there = joining(other, broker, wanted)
                found += [*more, link] if there else []
                needed |= there
        return found, needed

    total = deliveries = 0
    for row in rows:
        sender, weight = row["client"], row["weight"]
        at = {c: row.get("first", {}).get(c, home[c]) for c in (sender, *row["receivers"])}
        others = [c for c in row["receivers"] if c != sender]
        links = joining(at[sender], None, set(at.values()))[0]
        ways = [joining(at[sender], None, {at[sender], at[c]})[0] for c in others]
        deliveries += weight * len(others)
        if objective == "cost":
            total += weight * sum(LINKS[link][0] for link in links)
            total += weight * sum(ACCESS[REGION[c], at[c]][0] for c in (sender, *others)) * access
        elif objective == "latency":
            total += weight * sum(LINKS[link][1] for way in ways for link in way)
            total += weight * sum(ACCESS[REGION[x], at[x]][1] for c in others for x in (sender, c)) * access
        elif objective == "hops":
            total += weight * sum(2 + len(way) for way in ways)
        else:
            total += weight * len(links) * (row["bytes"] if objective == "bytes" else 1)
    return total / deliveries if objective in ("hops", "latency") else total


def traced(folder, rows, home, access):
    """The trace that the log and its tables are ingested into."""
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = {
        "sessions": ["client,broker", *(f"{c},{b}" for c, b in home.items())],
        "links": [
            "left,right,cost,latency_us,wired",
            *(f"{a},{b},{cost},{us},{(a, b) in WIRED}".lower() for (a, b), (cost, us) in LINKS.items()),
        ],
    }
    if access:
        texts["clients"] = ["client,region", *(f"{c},{r}" for c, r in REGION.items())]
        texts["access"] = [
            "region,broker,cost,latency_us",
            *(f"{r},{b},{x},{us}" for (r, b), (x, us) in ACCESS.items()),
        ]
    ingest_sources([str(folder / "log.jsonl")], str(folder / "trace"))
    for name, lines in texts.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        add_tables([str(folder / f"{name}.csv")], name, str(folder / "trace"), {})
    return str(folder / "trace")


def listed(document, home):
    """(homes, links) once the changes that a plan lists are made."""
    then, wired = dict(home), set(WIRED)
    for step in document["steps"]:
        for change in step["changes"]:
            pair = change["left"], change["right"]
            if change["facet"] == "placement" and change["action"] == "add":
                then[pair[0]] = pair[1]
            elif change["facet"] == "tree":
                (wired.add if change["action"] == "add" else wired.discard)(tuple(sorted(pair)))
    return then, wired


@pytest.mark.parametrize(
    ("seed", "objective", "access"),
    [(0, "cost", False), (1, "cost", True), (2, "messages", False), (3, "bytes", True), (4, "hops", False),
     (5, "latency", True)],
)  # fmt: skip
def test_every_figure_of_the_answer_is_what_the_listed_changes_save(tmp_path, seed, objective, access):
    rows, home = log_of(seed)
    limits = Limits(budget=9, sent_cap=0.0, handled_cap=0.0, placement="anywhere")
    try:
        goal = Goal(effort=0, objective=objective)
        (part,) = optimize(traced(tmp_path, rows, home, access), tmp_path / "run", limits, goal).verdicts
    except NothingBetter as error:
        (part,) = error.result.verdicts
    document = json.loads((part.folder / "plan.json").read_text())
    judged, answer = document["judged"], json.loads((tmp_path / "run" / "answer.json").read_text())["parts"][0]
    then, wired = listed(document, home)
    moves, links = sum(then[c] != home[c] for c in home), len(wired - set(WIRED))
    assert moves + links <= 9
    assert (answer["moves"], answer["links"]) == (moves, links)

    def cost(some, homes, tree):
        return paid(some, homes, tree, objective, access)

    window = {
        name: [row for row in rows if judged[key][0] <= row["at"] * 10**6 < judged[key][1]]
        for name, key in (("train", "train"), ("held-out", "held_out"))
    }
    assert judged["train_share"] == pytest.approx(
        sum(row["weight"] for row in window["train"]) / sum(row["weight"] for row in rows)
    )
    for measured in judged["metrics"][:1] + [m for m in judged["metrics"][1:] if m["metric"] == part.metric]:
        some = window[measured["part"]]
        assert measured["before"] == pytest.approx(cost(some, home, WIRED), rel=1e-9)
        assert measured["after"] == pytest.approx(cost(some, then, wired), rel=1e-9)
    held_out = window["held-out"]
    before, after = cost(held_out, home, WIRED), cost(held_out, then, wired)
    assert before != after
    assert (answer["before"], answer["after"]) == (pytest.approx(before), pytest.approx(after))
    assert judged["saving"]["share"] == answer["saved"]["share"] == pytest.approx(1 - after / before)
    assert answer["saved_on_train"] == pytest.approx(
        1 - cost(window["train"], then, wired) / cost(window["train"], home, WIRED)
    )
    assert judged["curve"][-1]["metrics"][part.metric] == pytest.approx(after)
    said = headline(part.document)
    assert f"move {moves} client" in said or not moves
    assert f"change {links} link" in said or not links
    assert (
        f": {abs(1 - after / before):.1%} {'less' if after < before else 'more'} {label_of(part.metric)} on held-out"
        in said
    )

    old = {c for row in window["train"] for c in (row["client"], *row["receivers"])}
    new = {c for row in held_out for c in (row["client"], *row["receivers"])} - old
    assert new
    assert all(then[c] == home[c] for c in new)
    apart = {each["clients"]: each for each in judged["apart"]}
    if objective not in ("hops", "latency"):  # means are per delivery, of all
        mine = {True: [], False: []}
        for row in held_out:
            mine[bool(new & {row["client"], *row["receivers"]})].append(row)
        for who, some in (("known", mine[False]), ("newcomers", mine[True])):
            assert apart[who]["before"] == pytest.approx(cost(some, home, WIRED))
            assert apart[who]["after"] == pytest.approx(cost(some, then, wired))
    assert judged["newcomers"]["newcomers"] == len(new)
    if document["newcomers"]["rule"] == "region":  # what the rule saves comes on top, from the second message on
        placed = then | {c: document["newcomers"]["brokers"].get(REGION[c], home[c]) for c in new}
        first = {}
        for row in held_out:
            for c in new & {row["client"], *row["receivers"]}:
                first.setdefault(c, row["at"])
        ruled = [row | {"first": {c: home[c] for c in new if first[c] == row["at"]}} for row in held_out]
        assert judged["newcomers"]["share"] == pytest.approx((after - cost(ruled, placed, wired)) / before)
        assert judged["newcomers"]["elsewhere"] == sum(placed[c] != home[c] for c in new)
    assert (objective, access) != ("latency", True) or document["newcomers"]["rule"] == "region"
