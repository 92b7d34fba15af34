"""Run the cells of a notebook in one process, and keep what they show.

    python scripts/notebook.py docs/notebook.ipynb FOLDER [--write]

Cells run in FOLDER, in order. Without `--write`, texts that are not those in the notebook are printed, and the command
fails.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a cell as a notebook keeps them: what is printed, and its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    outputs: list[dict[str, Any]] = []
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "notebook", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "notebook", "eval"), names) if last else None  # type: ignore[attr-defined]
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(True)}
        if html := getattr(value, "_repr_html_", lambda: None)():
            data["text/html"] = html.splitlines(True)
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def texts(outputs: list[dict[str, Any]]) -> list[str]:
    """Outputs as text, without their HTML."""
    return ["".join(each["text"] if "text" in each else each["data"]["text/plain"]) for each in outputs]


def check(notebook: Path, folder: Path, write: bool = False) -> list[str]:
    """The cells that show another text than the notebook, each with what it shows now."""
    document, names, wrong = json.loads(notebook.read_text()), {}, []
    with contextlib.chdir(folder):
        for number, cell in enumerate([each for each in document["cells"] if each["cell_type"] == "code"], 1):
            outputs = run_cell("".join(cell["source"]), names)
            if texts(outputs) != texts(cell["outputs"]):
                wrong.append(f"cell {number}:\n" + "\n".join(texts(outputs)))
            cell |= {"outputs": outputs, "execution_count": number}
            for each in outputs:
                each |= {"execution_count": number} if "data" in each else {}
    if write:
        notebook.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return wrong


def main() -> int:
    """Check a notebook, or write its outputs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="put what is shown into the notebook")
    asked = parser.parse_args()
    wrong = check(asked.notebook, asked.folder, asked.write)
    print("\n".join(wrong) or "as shown")
    return 0 if asked.write or not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
