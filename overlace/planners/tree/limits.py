"""A wanted tree brought within the limits: links that must stay are in it, brokers keep to their degrees."""

from __future__ import annotations

from overlace.arrays.jit import Pairs
from overlace.arrays.pairs import as_pairs, positions
from overlace.errors import NothingBetter
from overlace.model import name_of
from overlace.planners.search import trees
from overlace.planners.search.links import Rules
from overlace.planners.tree.setting import Setting


def start_within_limits(setting: Setting) -> Setting:
    """Where there is no tree yet, the one to start from is brought within the limits."""
    return setting if setting.built else setting._replace(start=within_limits(setting, setting.start))


def within_limits(setting: Setting, wanted: Pairs) -> Pairs:
    """The wanted tree with the links that must stay, and with links taken from brokers that have too many."""
    return _checked(setting, *trees.within_limits(setting.problem, setting.start[setting.kept], wanted))


def relieve_brokers(setting: Setting, links: Pairs, rules: Rules) -> Pairs:
    """The tree with links taken from brokers above their limits."""
    return _checked(setting, *trees.relieve_brokers(setting.problem, links, rules), rules.most)


def _checked(setting: Setting, links: Pairs, stuck: int, most: int | None = None) -> Pairs:
    """The links; says so where a broker has too many."""
    if stuck < 0:
        return links
    found, cap = int((links == stuck).sum()), int(setting.problem.cap[stuck])
    fresh = int((positions(as_pairs(setting.start), links) < 0).sum())
    spent = most is not None and fresh >= most
    why = f"max_swaps lets only {most} links differ" if spent else "no swap of candidate links relieves it"
    more = "raise max_swaps" if spent else "name more links that could be wired"
    raise NothingBetter(
        f"{name_of('broker', stuck)} has {found} links and may have {cap}: {why}. Raise the limit, or {more}."
    )
