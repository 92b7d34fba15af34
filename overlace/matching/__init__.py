"""Who receives: topics with wildcards."""
