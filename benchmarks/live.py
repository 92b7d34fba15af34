"""Plans carried out on running brokers under load, every delivery counted.

python benchmarks/live.py [whole] [beside] [halves] [kills] [brokers] [size]

With words only those parts are measured and their sections of the page written anew; without, all (about half an hour).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from protocol import machine

sys.path.insert(0, str(Path(__file__).parent.parent))

from applying import again, whole

from overlace.live.servers import find_program

PAGE = Path(__file__).with_suffix(".md")
TITLE = "Plans carried out on running brokers"
ABOUT = """Seven brokers on this machine ({versions}) in a tree drawn by the seed, 3 ms a link; 40 clients of
`overlace.live.client` in one process under the load of `overlace live traffic` (30 topics with Zipf rates, wildcards,
queue groups, requests; about 300 messages/s). Every delivery is counted by publisher, topic, receiver and number, over
the whole run: before, while and after the network changes. By hand:

    overlace live up --substrate nats --brokers 7 --seed 7 --delay 3ms
    overlace live traffic --seed 7 --seconds 75            # beside it:
    overlace live record --seconds 15 --out trace
    overlace optimize trace --out run --objective messages
    overlace live apply run/plans/ID --network net --yes   # Mosquitto: --filters exact
    overlace live down

Other work ran on this machine meanwhile: counts and ratios are what to read. `make test` holds one whole plan on each
kind of broker and a kill in each phase (tests/live/test_apply_killed.py)."""

PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "whole": ("Recorded, planned, carried out", whole.whole),
    "beside": ("What else one could do, on NATS", whole.beside),
    "halves": ("In two halves; back; and by the inverse", again.halves),
    "kills": ("The applier killed in every phase", again.kills),
    "brokers": ("A broker killed in prepare", again.brokers),
    "size": ("Size: 24 brokers and 300 clients on NATS", again.size),
}


def sections() -> dict[str, str]:
    """What the page holds now, by heading."""
    if not PAGE.exists():
        return {}
    parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], (each.strip() for each in parts[1::2]), strict=True))


def write_page(held: dict[str, str]) -> None:
    """The page with the sections there are."""
    found = [find_program("nats"), find_program("mosquitto")]
    versions = [
        f"{name} {each.version}" for name, each in zip(("nats-server", "Mosquitto"), found, strict=True) if each
    ]
    texts = [f"# {TITLE}", f"`python benchmarks/live.py` on {machine()}.", ABOUT.format(versions=", ".join(versions))]
    texts += [f"## {heading}\n\n{held[heading]}" for heading, _ in PARTS.values() if heading in held]
    PAGE.write_text("\n\n".join(texts) + "\n")


def main(words: list[str]) -> None:
    """Measure the parts that are named, or all, and write the page."""
    if unknown := set(words) - PARTS.keys():
        sys.exit(f"no part is called {min(unknown)}; there are {', '.join(PARTS)}")
    for name, (heading, measure) in PARTS.items():
        if not words or name in words:
            began = time.monotonic()
            text = measure()
            write_page({**sections(), heading: text})
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
            print(text, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
