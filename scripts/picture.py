"""Draw README's picture: 24 sites before and after tree.regraft."""

from pathlib import Path

from overlace.planners.tree.regraft import Regraft
from overlace.report.charts import save, tree_picture
from overlace.workloads.square import square

ROOT = Path(__file__).parent.parent
SITES = (
    "aachen basel como dijon essen fulda gent hagen imola jena kassel liege milan nancy olten parma "
    "reims sion trier ulm vaduz worms xanten zug"
).split()

if __name__ == "__main__":
    observation = square(len(SITES), 96, 200)
    plan = Regraft().solve(observation)
    before, after = (plan.planner.cost(observation, each) for each in (plan.before, plan.after))
    panels = {
        f"before: cost {before:,.0f}": plan.before,
        f"after {len(plan.steps)} swaps: cost {after:,.0f}": plan.after,
    }
    target = ROOT / "docs/pictures/sites.svg"
    save(tree_picture(observation, panels, {"broker": SITES}), target)
    print(f"wrote {target.relative_to(ROOT)}")
