"""A wanted tree brought within the limits: links that must stay are in it, brokers keep to their degrees."""

from __future__ import annotations

import numpy as np

from overlace.arrays.components import spanning_forest
from overlace.arrays.jit import Ints, Pairs
from overlace.errors import NothingBetter
from overlace.model import name_of
from overlace.planners.tree.descent import Rules, Search, relieve, search_over
from overlace.planners.tree.problem import prices_of
from overlace.planners.tree.setting import Setting
from overlace.planners.tree.wiring import links_of


def begun(setting: Setting) -> Setting:
    """Where there is no tree yet, the one to start from is brought within the limits."""
    return setting if setting.built else setting._replace(start=within_limits(setting, setting.start))


def within_limits(setting: Setting, wanted: Pairs) -> Pairs:
    """The wanted tree with the links that must stay, and with links taken from brokers that have too many."""
    p = setting.problem
    if len(wanted) == 0:
        return wanted
    stay = setting.start[setting.kept]
    price = prices_of(p, wanted)
    both = np.concatenate([stay, wanted[np.lexsort((wanted[:, 1], wanted[:, 0], price))]])
    links = both[spanning_forest(p.brokers, both, np.arange(len(both)))]
    kept = np.arange(len(links)) < len(stay)
    none: Ints = np.full(p.brokers, -1, dtype=np.int64)
    rules = Rules(kept, p.cap, none, p.brokers, 0.0)
    search = search_over(p, np.ascontiguousarray(links), rules)
    relieved(setting, search, rules)
    found: Pairs = links_of(search.wiring)
    return found


def relieved(setting: Setting, search: Search, rules: Rules) -> None:
    """Take links from brokers above their limits; says so where none can be taken."""
    stuck = relieve(setting.problem, search, rules)
    if stuck >= 0:
        found, cap = int(search.wiring.degree[stuck]), int(setting.problem.cap[stuck])
        spent = search.state[0] >= rules.most
        why = f"max_swaps lets only {rules.most} links differ" if spent else "no swap of candidate links relieves it"
        more = "raise max_swaps" if spent else "name more links that could be wired"
        raise NothingBetter(
            f"{name_of('broker', stuck)} has {found} links and may have {cap}: {why}. Raise the limit, or {more}."
        )
