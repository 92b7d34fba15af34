"""Write requirements*.txt: every package that ours need, at the version installed here.

Only names and versions: where they are fetched from is the machine's business.
"""

import re
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


def closure(extra: str) -> dict[str, str]:
    """Our dependencies and theirs; with an extra, that extra's."""
    pins: dict[str, str] = {}
    todo = [Requirement(r) for r in requires("overlace") or []]
    todo = [r for r in todo if (r.marker.evaluate({"extra": extra}) if r.marker else not extra)]
    for more in sorted({each for r in todo if r.name == "overlace" for each in r.extras}):  # extras of ours in one
        pins |= closure(more)
    names = [(r.name, r.extras) for r in todo if r.name != "overlace"]
    names += [] if extra else [("hatchling", set[str]()), ("editables", set[str]())]
    while names:
        name, extras = names.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        try:
            found = version(name)
        except PackageNotFoundError:
            print(f"{name} is not installed: left out")
            continue
        if key not in pins:
            pins[key] = found
            below = (Requirement(r) for r in requires(name) or [])
            wanted = ["", *sorted(extras)]
            names += [
                (r.name, r.extras)
                for r in below
                if r.marker is None or any(r.marker.evaluate({"extra": e}) for e in wanted)
            ]
    return pins


def main() -> None:
    """One file for running, one for tests and checks, one for live networks, one for Java."""
    run = closure("") | closure("report")
    texts = {
        "": "What the package and its pages need to run, every version pinned. `make pins` writes it anew.",
        "dev": "What the tests and checks need beyond requirements.txt.",
        "live": "What `overlace live` needs beyond requirements.txt: clients for NATS and MQTT, and a NATS server.",
        "java": "A Java runtime, for machines that have none or one older than 17.",
    }
    for extra, text in texts.items():
        pins = {k: v for k, v in closure(extra).items() if k not in run} if extra else run
        name = f"requirements{'-' + extra if extra else ''}.txt"
        if pins:
            lines = "".join(f"{k}=={v}\n" for k, v in sorted(pins.items()))
            (ROOT / name).write_text(f"# {text}\n{lines}")


if __name__ == "__main__":
    main()
