"""A plan by name: where every client is at home with it and which links there are, for those who carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Pairs
from overlace.catalog import PLANNERS
from overlace.errors import BadOverlay, BadPlan, Unknown
from overlace.live.deployment import CONTROL
from overlace.live.wiring import Links, links_of
from overlace.model import Names, Observation, Overlay, name_of
from overlace.model.overlay import check_tree
from overlace.trace.plan_checks import check_ids
from overlace.trace.plan_file import PlanFile
from overlace.trace.plans import read_columns, read_plan
from overlace.trace.runs import read_observation


class Planned(NamedTuple):
    """An overlay that a plan leads to, by names."""

    path: Path
    document: PlanFile
    run: Path
    brokers: tuple[str, ...]
    homes: Mapping[str, str]  # the broker of each client that has one
    links: Links
    before: Links
    was: Mapping[str, str] = MappingProxyType({})  # the broker that each client had when it was planned
    newcomers: Mapping[str, str] = MappingProxyType({})  # homes by the plan's rule, of those who came later

    @property
    def name(self) -> str:
        """What the plan is called."""
        return (self.path if self.path.is_dir() else self.path.parent).absolute().name

    def inverse(self) -> Planned:
        """The way back: its links and homes are those before the plan, and those before it are the plan's."""
        return self._replace(homes=self.was, was=self.homes, links=self.before, before=self.links)


def read_planned(path: Path, run: Path | None = None) -> Planned:
    """A plan of placement or tree, read with the names of its run; refused if it is none, was altered, or is alone."""
    folder = path if path.is_dir() else path.parent
    if not path.exists() or not (folder / "plan.json").exists():
        raise _missing(path)
    document = read_plan(path, PLANNERS)
    if not {"placement", "tree"} & set(document.facets):
        raise BadPlan(f"{path} plans {', '.join(document.facets)}; expected one that plans placement or tree.")
    run = run or folder.absolute().parent.parent
    if not (run / "observation").is_dir():
        raise BadPlan(f"{path} lies in no run, which has the names of its brokers. Say which it is from: --run RUN")
    observation, names = read_observation(run)
    if (document.observation, document.before) != (observation.digest(), observation.overlay.digest()):
        raise BadPlan(f"{path} was made from another observation than {run} holds. Give its own run with --run.")
    after, _ = read_columns(path, document)
    check_ids(after, observation)
    brokers = tuple(name_of("broker", i, names) for i in range(observation.network.brokers))
    _check_names(brokers, run)
    before, wired = (_links(each.tree, brokers) for each in (observation.overlay, after))
    homes, was = (_homes(observation, each, names, brokers) for each in (after, observation.overlay))
    return Planned(path, document, run, brokers, homes, wired, before, was)


def links_by_step(planned: Planned) -> list[Links]:
    """The links after none of the steps of the whole plan, after the first, and so on."""
    document = read_plan(planned.path, PLANNERS)
    after, (changes, steps) = read_columns(planned.path, document)
    ends = (int(steps.start[k]) for k in range(document.steps_total + 1))
    overlays = (after.apply(changes.between(end, len(changes)).inverse()) for end in ends)
    return [_links(each.tree, planned.brokers) for each in overlays]


def _missing(path: Path) -> BadPlan | Unknown:
    """There is no such plan; which there are, if it is one of a run."""
    there = sorted(each.parent.name for each in path.parent.glob("*/plan.json"))
    if there:
        return Unknown(f"plan in {path.parent}", path.name, there)
    return BadPlan(f"{path}: no plan there. `overlace optimize TRACE --out RUN` makes plans in RUN/plans.")


def _check_names(brokers: tuple[str, ...], run: Path) -> None:
    for name in brokers:
        if not name or CONTROL.search(name):
            raise BadPlan(f"{run}: broker {name!r}: a name with control characters can be in no configuration.")
    if len(set(brokers)) < len(brokers):
        twice = next(name for name in brokers if brokers.count(name) > 1)
        raise BadPlan(f"{run}: two brokers are called {twice!r}. Expected a name of its own for each.")


def _links(tree: Pairs, brokers: tuple[str, ...]) -> Links:
    return links_of((brokers[a], brokers[b]) for a, b in tree.tolist())


def _homes(observation: Observation, after: Overlay, names: Names, brokers: tuple[str, ...]) -> dict[str, str]:
    homes = after.homes(observation.clients)
    return {name_of("client", i, names): brokers[b] for i, b in enumerate(homes.tolist()) if b >= 0}


def refuse_no_tree(planned: Planned) -> None:
    """Refused unless the links join all brokers of the plan without a cycle."""
    place = {name: i for i, name in enumerate(planned.brokers)}
    pairs = np.array([(place[a], place[b]) for a, b in planned.links], dtype=np.int64).reshape(-1, 2)
    try:
        check_tree(pairs, len(place), {"broker": planned.brokers})
    except BadOverlay as error:
        raise BadPlan(f"{planned.path}: {error}") from None
