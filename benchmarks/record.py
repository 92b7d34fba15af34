"""Recordings of running networks against the load's own tally, what tracing costs, and exported files when started.

python benchmarks/record.py [counted] [traced] [estimated]

With words only those parts are measured, and printed; the page is written by all of them together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from protocol import table, write

sys.path.insert(0, str(Path(__file__).parent.parent))

from recording import estimated, exported, tracing
from recording import traced as recordings
from recording.networks import SEEDS

from overlace.live.deployment import Substrate
from overlace.live.servers import find_program

SUBSTRATES: tuple[Substrate, ...] = ("nats", "mosquitto")
NAMES = {"nats": "NATS", "mosquitto": "Mosquitto"}

ABOUT = """Seven brokers on this machine ({versions}), linked by a tree that is drawn by the seed; 40 clients of
`overlace.live.client` in one process under the load of `overlace live traffic` (seeded: 30 topics with Zipf rates,
wildcards, queue groups, requests), about 300 messages/s; recordings in a process of their own. By hand:

    overlace live up --substrate nats --brokers 7 --seed 7
    overlace live traffic --seed 7 --seconds 27            # beside it:
    overlace live record --seconds 30 --out trace          # or --how traced --sample 0.1 --seconds 60
    overlace optimize trace --out run
    overlace live export run/plans/ID --to nats --network net --out files
    overlace live export run/plans/ID --to clients --network net --out map
    overlace live down
    nats-server -c files/hub-1.conf                        # and so on; mosquitto -v -c files/hub-1.1.conf

The load begins when the recording has begun and ends before it ends, so that both are of the same messages: the
tally is what the load itself knows of them. Other work ran on this machine meanwhile: counts and ratios are what to
read."""

COUNTED = """A recording of 30 s. *Counts* are of (client, topic), answers to requests among them; *deliveries* are
those of the trace as recorded, second by second, against those that the clients had. The observation is of the
trace folded into one second, beside one of a trace that is written from the tally's own rows, with the tree that
was drawn; *same* if flows, classes, homes and links are the same to the bit (digests of observation and overlay)."""

EXPORTED = """The plan of each of these recordings is exported, the network is ended, and brokers are started from
the exported files as they are, in the other colour; clients go where the exported map has them, and the same load
is put on for {seconds:g} s. Predicted are the links that a message to a topic crosses in the planned tree with the
planned homes; measured is what NATS servers traced (all messages) or what came over bridges by the log of each
Mosquitto (`-v` is `log_type all`). *Links* are as the brokers say; *lost* is of all messages; *doubled* of messages
to topics, which a loop would double. *Newcomers* subscribe to a new topic under each prefix that somebody
subscribes to at their broker; one is served when messages from all seven brokers reach it."""

DEALT = """On Mosquitto a message to a group is dealt at each broker with members on its own, so that `optimize`
leaves members of a group where they are; else each of their brokers would give a message to one of them.
Deliveries of group messages beyond the first in these runs: {mosquitto:,} on Mosquitto, {nats:,} on NATS."""

TRACED = """Recordings of 60 s (at 1 % of 30 s): the links that a message to a topic crosses, by the traced messages
with their receivers and the recorded tree and homes, against the tally of all messages."""

COST = """The same load with nothing recorded and with `record --how traced`: messages on links by the servers' own
counters (/leafz), from before the recording to its end, so that all of its own traffic is in it: latency probes,
and the order to sample every {seldom} s with the answers of all clients. CPU is the kernel's, of all seven servers
and of the process with all 40 clients, while messages were published, and for each message that was published;
*times* is against nothing recorded, in the same run. At 1 % the load is half as long."""

ALONE = """Tracing alone, without orders, at about 1,000 messages/s: {messages:,} messages, plain clients of
nats-py, collectors at all brokers in every row. *Wrong* are traces that are not what the clients received. How far
`0%, again` is from `0%` is what other work on the machine does to the CPU column. The last row of each seed is why
there is a collector at every broker."""

FLAT = """One server, one publisher as quick as it can, one receiver: the least of three runs."""

ESTIMATED = """40 plain clients of nats-py with Zipf rates, about 300 messages/s, one to three subjects each, a
wildcard, a queue group, requests and a subject that nobody wants; 60 s. *Wrong* is half of what estimate and tally
differ by, over all (publisher, topic), of the messages that somebody received: what `record --how estimated`
writes. Beside it the same recording with one look a second, without the counters of links (as where brokers are no
leafnodes), and shares in proportion: every topic by what clients sent in all. *Two halves differ* is what the
recording itself says of how sure it is: the share of messages that fits of every other tick have at different
publishers."""

FAILS = """It fails where publishers rise and fall together. Ten pairs of clients at one broker: the second
publishes whenever the first does, on subjects of its own. Counters cannot tell the two apart, so that they share by
what they sent; the notes of a recording name them. At different brokers the counters of links do."""


def yes(is_so: bool) -> str:
    """A cell."""
    return "yes" if is_so else "**no**"


def counted_part() -> list[str]:
    """Counted recordings, plans from them, and the networks that were started from what was exported."""
    rows, carried = [], []
    doubled = dict.fromkeys(SUBSTRATES, 0)
    for substrate in SUBSTRATES:
        for seed in SEEDS:
            story = exported.tell(substrate, seed)
            found = story.compared
            rows.append(
                [
                    NAMES[substrate], seed, f"{found.messages:,}", f"{found.wrong_counts} of {found.counts}",
                    f"{found.wrong_bytes} of {found.counts}", f"{found.wrong_deliveries} of {found.deliveries:,}",
                    found.flows, found.classes, yes(found.same), story.planning.code, story.planning.text,
                ]
            )  # fmt: skip
            print(*rows[-1], file=sys.stderr)
            for each in story.carried:
                carried.append(
                    [
                        NAMES[substrate], seed, each.filters, f"{yes(each.as_planned)} (+{story.changed[0]})",
                        f"{each.at_home} of 40", f"{story.before:.3f}", f"{each.predicted:.3f}",
                        f"{each.measured:.3f}", f"{each.measured - each.predicted:+.3f}",
                        each.lost, each.duplicated, "{} of {}".format(*each.served),
                    ]
                )  # fmt: skip
                doubled[substrate] += each.doubled
                print(*carried[-1], each.doubled, file=sys.stderr)
    head = ["", "seed", "messages", "wrong counts", "wrong bytes", "wrong deliveries", "flows", "classes",
            "same observation", "optimize", "its answer"]  # fmt: skip
    after = ["", "seed", "filters", "links (new)", "at their home", "crossings before", "predicted", "measured",
             "excess", "lost", "doubled", "newcomers served"]  # fmt: skip
    return [
        f"## Counted: the tally\n\n{COUNTED}\n\n{table(head, rows)}",
        f"## Exported files, started as they are\n\n{EXPORTED.format(seconds=exported.AFTER)}\n\n"
        f"{table(after, carried)}\n\n{DEALT.format(**doubled)}",
    ]


def apart_text(rows: Sequence[Sequence[object]]) -> str:
    """How far traced recordings are from the tally, by what is traced."""
    worst: dict[str, float] = {}
    for row in rows:
        what, share = str(row[1]), abs(float(str(row[7]).rstrip("%")))
        worst[what] = max(worst.get(what, 0.0), share)
    listed = ", ".join(f"{share:.1f} % at {what.rstrip('%')} %" for what, share in worst.items())
    missed = [what for what in ("10%", "50%") if worst[what] > 5]
    asked = "missed" if missed else "kept"
    return f"Furthest apart: {listed}. Asked for are 5 % at 10 and 50 %: {asked}. Few traces, as at 1 %, say less."


def cost_text(rows: Sequence[Sequence[object]]) -> str:
    """What a recording of everything adds to links, and for which seeds that is more than was asked for."""
    more = {row[0]: float(str(row[4]).rstrip("%")) for row in rows if row[1] == "100%"}
    listed = ", ".join(f"{share:+.1f} % (seed {seed})" for seed, share in more.items())
    missed = [str(seed) for seed, share in more.items() if share > 3]
    asked = f"**missed** by seed {', '.join(missed)}" if missed else "kept"
    return (
        f"At 100 % traced: {listed}. Asked for are 3 % at most: {asked}. All of it is the recording's own control "
        "traffic, as many messages at 10 as at 100 %, and more for each message where the load is shorter; the next "
        "table is of tracing without it."
    )


def traced_part() -> list[str]:
    """Traced recordings, and what they cost."""
    from overlace.live.recorder import SELDOM

    rows, cost = [], []
    for seed in SEEDS:
        stages, found = recordings.measure(seed)
        for each in found:
            code, text = (each.planning.code, each.planning.text) if each.planning else ("", "")
            share = f"{each.found / each.true - 1:+.1%}"
            rows.append(
                [seed, each.what, f"{each.seconds:.0f} s", f"{each.traces:,}", each.incomplete, f"{each.found:.3f}",
                 f"{each.true:.3f}", share, code, text]
            )  # fmt: skip
            print(*rows[-1], file=sys.stderr)
        plain = stages[0].run
        for what, run in stages:
            servers, clients = (each / run.messages for each in (run.servers, run.clients))
            cost.append(
                [
                    seed, what, f"{run.messages:,}", f"{run.links / run.messages:.3f}",
                    f"{run.links / run.messages / (plain.links / plain.messages) - 1:+.1%}",
                    f"{1e6 * servers:.0f} us", f"{servers / (plain.servers / plain.messages):.2f}",
                    f"{1e6 * clients:.0f} us", f"{clients / (plain.clients / plain.messages):.2f}",
                ]
            )  # fmt: skip
            print(*cost[-1], file=sys.stderr)
    head = ["seed", "traced", "recorded", "traces", "incomplete", "crossings", "the tally's", "apart", "optimize",
            "its answer"]  # fmt: skip
    paid = ["seed", "traced", "messages", "link messages a message", "more", "servers' CPU a publish", "times",
            "clients' CPU a publish", "times"]  # fmt: skip
    return [
        f"## Traced (NATS): crossings\n\n{TRACED}\n\n{table(head, rows)}\n\n{apart_text(rows)}",
        f"## What a traced recording costs\n\n{COST.format(seldom=SELDOM)}\n\n{table(paid, cost)}\n\n{cost_text(cost)}",
        f"{ALONE.format(messages=tracing.MESSAGES)}\n\n{tracing.compare_shares()}",
        f"{FLAT}\n\n{tracing.compare_flat_out()}",
    ]


def estimated_part() -> list[str]:
    """Estimated recordings, and where they fail."""
    apart, together = estimated.measure()
    return [f"## Estimated (NATS, any client)\n\n{ESTIMATED}\n\n{apart}", f"{FAILS}\n\n{together}"]


PARTS: dict[str, Callable[[], list[str]]] = {
    "counted": counted_part,
    "traced": traced_part,
    "estimated": estimated_part,
}


def main(words: list[str]) -> None:
    """Measure, and write the page."""
    found = {substrate: find_program(substrate) for substrate in SUBSTRATES}
    versions = [f"{NAMES[each]} {program.version}" for each, program in found.items() if program]
    if len(versions) < len(SUBSTRATES):
        print("nats-server (make live) and mosquitto (your system's package) are needed: nothing measured")
        return
    texts = [text for name in words or PARTS for text in PARTS[name]()]
    if words:
        print("\n\n".join(texts))
    else:
        write(__file__, "Recordings of running networks", [ABOUT.format(versions=" and ".join(versions)), *texts])


if __name__ == "__main__":
    main(sys.argv[1:])
