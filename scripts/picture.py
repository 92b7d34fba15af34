"""Draw README's picture: the demo's broker tree before and after."""

import tempfile
from pathlib import Path

from overlace.jobs.demo import demo

ROOT = Path(__file__).parent.parent

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = demo(Path(folder) / "run")
        target = ROOT / "docs/pictures/demo.svg"
        target.write_bytes(made.picture.read_bytes())
        print(f"wrote {target.relative_to(ROOT)}")
