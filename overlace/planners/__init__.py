"""Planners: from an observation to a better overlay, step by step; a folder for each facet, and one search."""
