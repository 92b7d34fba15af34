"""The verbs strung together."""
