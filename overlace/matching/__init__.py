"""Who receives: topics with wildcards, filters on content."""
