"""Raw log lines to events, as functions of bytes: no Spark, no state between files. A format is a module here."""

import pkgutil
from importlib.resources import files

_DATA = (each.name for each in files("overlace.ingest").joinpath("presets").iterdir())
NAMES = tuple(
    sorted(
        [
            *(each.name.replace("_", "-") for each in pkgutil.iter_modules(__path__)),
            *(name.removesuffix(".toml") for name in _DATA if name.endswith(".toml")),
        ]
    )
)
"""What formats there are, without reading them."""
