"""`overlace live record` in a process of its own, which says when it has begun to record.

python recorder.py NETWORK TRACE HOW SECONDS SAMPLE
"""

from __future__ import annotations

import json
import sys

from overlace.live.deployment import read_deployment
from overlace.live.options import RecordOptions
from overlace.live.record import record

BEGUN = "begun"


def main(network: str, out: str, how: str, seconds: str, sample: str) -> None:
    """Record; the last line on standard output says how it was."""
    told = False

    def progress(share: float, text: str) -> None:
        nonlocal told
        if text.startswith("recording") and not told:
            told = True
            print(BEGUN, flush=True)

    options = RecordOptions(how=how, seconds=float(seconds), sample=float(sample))  # type: ignore[arg-type]
    found = record(read_deployment(network), out, options, progress)
    print(json.dumps({"summary": found.summary(), **found.about, "notes": found.notes}))


if __name__ == "__main__":
    main(*sys.argv[1:])
