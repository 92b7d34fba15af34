"""Raw log lines to events, as functions of bytes: no Spark, no state between files."""
