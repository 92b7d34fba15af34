"""The templates of pages and notebooks: whatever they show is escaped, its control characters made visible."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

import jinja2

from overlace.report.sheets import visible
from overlace.report.tables import without_empty


def render_template(name: str, values: Mapping[str, object]) -> str:
    """A template of this folder with these values."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(read_text),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: visible(value, len(value)) if type(value) is str else value,
    )
    environment.filters |= {
        "visible": visible,
        "filled": without_empty,
        "arrows": lambda text: text.replace(" -> ", " → "),
    }
    return environment.get_template(name).render(values).lstrip()


def read_text(name: str) -> str:
    """A file of this folder."""
    return files("overlace.report").joinpath(name).read_text("utf-8")
