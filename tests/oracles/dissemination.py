"""Dissemination trees by brute force: every choice of parents, arrivals by walking up link by link."""

from itertools import product

TOLERANCE = 1e-9


def arrivals(delay, parent):
    """The milliseconds from the root to each peer, or None if the parents are no tree."""
    found = []
    for v in range(len(parent)):
        links, x = [], v
        while parent[x] != -1 and len(links) < len(parent):
            links.append(delay[parent[x]][x])
            x = parent[x]
        if len(links) >= len(parent):
            return None
        found.append(sum(reversed(links)))
    return found


def bounds_met(delay, bound, root, parent):
    """Subscribers with a bound that get their messages in time."""
    late = arrivals(delay, parent)
    return sum(v != root and bound[v] != float("inf") and late[v] <= bound[v] + TOLERANCE for v in range(len(bound)))


def most_met(delay, bound, degree, root):
    """The most bounds that any tree within the degree limits meets."""
    n = len(bound)
    others = [v for v in range(n) if v != root]
    best = -1
    for choice in product(range(n), repeat=n - 1):
        if any(choice.count(p) > degree[p] for p in set(choice)):
            continue
        parent = [-1] * n
        for v, p in zip(others, choice, strict=True):
            parent[v] = p
        if arrivals(delay, parent) is not None:
            best = max(best, bounds_met(delay, bound, root, parent))
    return best
