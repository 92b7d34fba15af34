"""Placement and tree together: the planner, what it is given, and its reasons."""
