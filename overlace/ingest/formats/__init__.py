"""Raw log lines to events, as functions of bytes: no Spark, no state between files. A format is a module here."""

import pkgutil

NAMES = tuple(sorted(each.name.replace("_", "-") for each in pkgutil.iter_modules(__path__)))
"""What formats there are, without reading them."""
