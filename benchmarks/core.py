"""The foundation: differences of overlays, tree kernels, components, plan files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import networkx as nx
import numpy as np
from protocol import Measured, peak_bytes, seconds, short, table, write

import overlace
from overlace.arrays.components import components_per_group
from overlace.arrays.jit import kernel
from overlace.arrays.trees import common_ancestor, hops_between, root_at, subtree_costs
from overlace.model import Changes, Observation, Overlay, Plan, Steps
from overlace.planners.placement.baselines import Stay
from overlace.trace.plans import load_plan
from tests.traces import write_plan


@kernel
def common_ancestors(tree, left, right):
    found = np.empty(len(left), dtype=np.int64)
    for i in range(len(left)):
        found[i] = common_ancestor(tree, left[i], right[i])
    return found


def mesh(links: int, seed: int) -> Overlay:
    rows = np.random.default_rng(seed).integers(0, max(10, links // 10), (links, 2))
    return Overlay(mesh=rows[rows[:, 0] != rows[:, 1]])


def differences() -> str:
    rows, before = [], 0.0
    for links in (10_000, 100_000, 1_000_000, 10_000_000):
        a, b = mesh(links, 0), mesh(links, 1)
        changes = a.changes_to(b)
        assert a.apply(changes) == b
        there, back = seconds(lambda a=a, b=b: a.changes_to(b), 3), seconds(lambda a=a, c=changes: a.apply(c), 3)
        ratio = "-"
        if links <= 1_000_000:
            sets = [set(map(tuple, each.mesh.tolist())) for each in (a, b)]

            def plain(sets=sets):
                removed, added = sets[0] - sets[1], sets[1] - sets[0]
                return (sets[0] - removed) | added

            ratio = f"{seconds(plain, 2) / (there + back):.1f}"
        memory = peak_bytes(lambda a=a, b=b, c=changes: (a.changes_to(b), a.apply(c)))
        growth = f"{(there + back) / before:.1f}" if before else "-"
        before = there + back
        rows.append(
            (f"{links:,}", f"{len(changes):,}", short(there), short(back), growth, ratio, f"{memory / 1e6:,.0f} MB")
        )
    head = ("links", "changes", "difference", "apply", "growth per 10x", "Python sets / ours", "peak memory")
    return "## Two random meshes: difference and apply\n\n" + table(head, rows)


def random_tree(n: int) -> np.ndarray:
    later = np.arange(1, n)
    return np.column_stack([(np.random.default_rng(0).random(n - 1) * later).astype(np.int64), later])


def tree_kernels() -> str:
    rows, before = [], {}
    for n in (1_000, 10_000, 100_000):
        links = random_tree(n)
        rooted = root_at(n, links, 0)
        rng = np.random.default_rng(1)
        pairs = 10 * n
        left, right = rng.integers(0, n, (2, pairs))
        start = np.arange(0, 5 * n + 1, 5)
        terminals = rng.integers(0, n, 5 * n)
        ones, none = np.ones(n), np.zeros(n)
        graph = nx.Graph(links.tolist())
        few = 50
        sample = [nx.shortest_path_length(graph, int(a), int(b)) for a, b in zip(left[:few], right[:few], strict=True)]
        assert hops_between(rooted, left[:few], right[:few]).tolist() == sample
        slow = seconds(
            lambda: [
                nx.shortest_path_length(graph, int(a), int(b)) for a, b in zip(left[:few], right[:few], strict=True)
            ],
            1,
        )
        for what, run, count, rival in (
            ("root the tree", lambda: root_at(n, links, 0), n, None),
            ("path lengths", lambda: hops_between(rooted, left, right), pairs, slow / few),
            ("common ancestors", lambda: common_ancestors(rooted, left, right), pairs, None),
            ("minimal subtrees of 5", lambda: subtree_costs(rooted, ones, none, start, terminals), n, None),
        ):
            taken = seconds(run, 3)
            growth = f"{taken / before[what]:.1f}" if what in before else "-"
            before[what] = taken
            ratio = f"{rival / (taken / count):,.0f}" if rival else "-"
            rows.append((what, f"{n:,}", f"{count:,}", short(taken), f"{taken / count * 1e9:.0f} ns", growth, ratio))
    head = ("kernel", "nodes", "items", "time", "each", "growth per 10x", "networkx / ours")
    return "## Trees (random recursive)\n\n" + table(head, rows)


def topics() -> str:
    rows, before = [], 0.0
    for clients in (10_000, 100_000, 1_000_000):
        rng = np.random.default_rng(0)
        interests = np.sort(rng.integers(0, clients // 10, (clients, 10)), axis=1)
        start = np.arange(0, 10 * clients + 1, 10)
        links = mesh(10 * clients, 3).mesh % clients
        group = np.ascontiguousarray(interests.reshape(-1))
        topics_count = clients // 10
        taken = seconds(lambda t=topics_count, s=start, g=group, m=links: components_per_group(t, s, g, m), 3)
        rows.append((f"{clients:,}", f"{len(links):,}", short(taken), f"{taken / before:.1f}" if before else "-"))
        before = taken
    return "## Components per topic (10 topics a client)\n\n" + table(
        ("clients", "links", "time", "growth per 10x"), rows
    )


def plan_files() -> str:
    rows, before = [], 0.0
    for n in (10_000, 100_000, 1_000_000):
        links = np.column_stack([np.arange(n), np.arange(1, n + 1)])
        plan = Plan(
            Links(),
            0,
            Overlay(),
            Overlay(mesh=links),
            Changes.of("mesh", 1, links),
            Steps(np.arange(n + 1), np.zeros(n), np.zeros(n)),
        )
        observation = Observation(clients=n + 1)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plan"
            taken = seconds(lambda p=path, q=plan, o=observation: write_plan(q, p, "links", o, force=True), 2)
            back = seconds(lambda p=path: load_plan(p, {"links": Links}), 2)
            size = sum(file.stat().st_size for file in path.iterdir())
        growth = f"{(taken + back) / before:.1f}" if before else "-"
        before = taken + back
        rows.append((f"{n:,}", short(taken), short(back), growth, f"{size / 1e6:.1f} MB"))
    return "## Plan files, one link a step\n\n" + table(("changes", "write", "read", "growth per 10x", "on disk"), rows)


class Links(Stay):
    """A planner whose plans cost nothing, to time only the files."""

    facets = ("mesh",)
    REASONS = ("a link",)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """Nothing."""
        return 0.0


def cold() -> str:
    """CPU seconds of the first commands after an install, and of the same ones again."""
    rows = []
    package = Path(overlace.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)

        def run(*words: str, at: Path = package.parent) -> float:
            code = "import sys; from overlace.cli import main; sys.exit(main())"
            with Measured() as spent:
                subprocess.run(
                    [sys.executable, "-c", code, *words],
                    check=True,
                    capture_output=True,
                    cwd=home,
                    env={**os.environ, "PYTHONPATH": str(at)},
                )
            return spent.cpu

        few = "--clients", "12", "--topics", "8", "--messages", "2000"
        run("generate", "sites", "--out", "trace", *few)
        run("observe", "trace", "--out", "run")
        asked = {
            "solve placement.leiden, 12 clients at 24 brokers": ("solve", "placement.leiden", "run", "--force"),
            "solve joint, the same": ("solve", "joint", "run", "--force"),
            "demo": ("demo", "--out", "shown", "--force"),
        }
        for name, words in asked.items():
            fresh = home / "fresh"
            shutil.copytree(package, fresh / "overlace", ignore=shutil.ignore_patterns("__pycache__"))
            rows.append((name, *(f"{run(*words, at=fresh):.1f} s" for _ in range(2))))
            shutil.rmtree(fresh)
    return "## The first commands, CPU\n\n" + table(("command", "nothing compiled", "again"), rows)


PARTS = {each.__name__: each for each in (differences, tree_kernels, topics, plan_files, cold)}

if __name__ == "__main__":
    asked_for = sys.argv[1:] or list(PARTS)
    made = [PARTS[each]() for each in asked_for]
    if len(asked_for) == len(PARTS):
        write(__file__, "Core", made)
    else:
        print("\n\n".join(made))
