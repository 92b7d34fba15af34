"""Who receives by content: filters on typed attributes, as SIENA has them (PART10 §2.1)."""
