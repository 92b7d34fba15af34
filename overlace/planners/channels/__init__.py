"""The facet `channels`: how the event space is cut into channels (PART10)."""
