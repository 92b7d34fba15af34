"""PART10 §2.1 word for word: attributes and constraints as quantifiers, covering by trying messages."""

import itertools
import math

OPERATORS = {
    "=": lambda value, bound: value == bound,
    "!=": lambda value, bound: value != bound,
    "<": lambda value, bound: value < bound,
    "<=": lambda value, bound: value <= bound,
    ">": lambda value, bound: value > bound,
    ">=": lambda value, bound: value >= bound,
    "prefix": lambda value, bound: value[: len(bound)] == bound,
    "suffix": lambda value, bound: bound == "" or value[-len(bound) :] == bound,
    "contains": lambda value, bound: value.find(bound) >= 0,
}
KINDS = {str: "text", bool: "flag", float: "number", int: "number"}


def agrees(name, value, constraint):
    """Whether an attribute matches a constraint: same name, same type, and the operator holds."""
    if name != constraint.attribute:
        return False
    if constraint.operator == "exists":
        return True
    same = KINDS[type(value)] == KINDS[type(constraint.value)]
    return same and OPERATORS[constraint.operator](value, constraint.value)


def matched(message, filter):
    return all(any(agrees(name, value, each) for name, value in message.items()) for each in filter)


def promised(message, advertisement):
    return all(any(agrees(name, value, each) for each in advertisement) for name, value in message.items())


def telling_numbers(constraints):
    """Numbers of which some lie in every range between the constraints' values."""
    bounds = sorted({each.value for each in constraints if isinstance(each.value, float)})
    near = [math.nextafter(b, side) for b in bounds for side in (-math.inf, math.inf)]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(bounds)]
    return [-math.inf, math.inf, *bounds, *near, *middles]


def texts_over(letters, longest):
    return ["".join(word) for size in range(longest + 1) for word in itertools.product(letters, repeat=size)]
