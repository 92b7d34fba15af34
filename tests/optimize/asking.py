"""What a user asks of optimize, in one call."""

from dataclasses import fields

from overlace.limits import Goal, Limits


def options_of(**given):
    """(limits, goal) from options of both."""
    of_goal = {each.name for each in fields(Goal)}
    goal = {name: value for name, value in given.items() if name in of_goal}
    return Limits(**{name: value for name, value in given.items() if name not in goal}), Goal(**goal)
