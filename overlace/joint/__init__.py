"""Placement and tree together: one cost, one budget of changes."""
