"""Draw README's picture: 24 sites before and after tree.regraft."""

from pathlib import Path

import altair as alt

from overlace.arrays.jit import Floats
from overlace.model import Names, Observation, Overlay, name_of
from overlace.planners.tree.regraft import Regraft
from overlace.report.charts import rows_chart
from overlace.report.layout import link_loads, place_brokers
from overlace.workloads.square import square

ROOT = Path(__file__).parent.parent
SITES = (
    "aachen basel como dijon essen fulda gent hagen imola jena kassel liege milan nancy olten parma "
    "reims sion trier ulm vaduz worms xanten zug"
).split()
INK, LOAD, PAPER = "#1b2733", "#d1495b", "#ffffff"


def tree_picture(observation: Observation, panels: dict[str, Overlay], names: Names) -> alt.HConcatChart:
    """One panel an overlay, side by side: the broker tree, links as wide as their load."""
    points = place_brokers(observation.network)
    most = max(float(link_loads(observation, each).max(initial=1.0)) for each in panels.values())
    charts = [tree_panel(observation, overlay, title, points, most, names) for title, overlay in panels.items()]
    return alt.hconcat(*charts, background=PAPER).configure_view(stroke=None)


def tree_panel(
    observation: Observation, overlay: Overlay, title: str, points: Floats, most: float, names: Names
) -> alt.LayerChart:
    """The broker tree of one overlay."""
    loads = link_loads(observation, overlay)
    links = [
        {"x": points[a, 0], "y": points[a, 1], "x2": points[b, 0], "y2": points[b, 1], "load": float(load)}
        for (a, b), load in zip(overlay.tree.tolist(), loads, strict=True)
    ]
    brokers = [{"x": x, "y": y, "name": name_of("broker", b, names)} for b, (x, y) in enumerate(points.tolist())]
    x = alt.X("x:Q", axis=None, scale=alt.Scale(zero=False, padding=24))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(zero=False, padding=18))
    width = alt.StrokeWidth("load:Q", scale=alt.Scale(type="sqrt", domain=[0, most], range=[0.8, 14]), legend=None)
    lines = rows_chart(links).mark_rule(color=LOAD, opacity=0.75, strokeCap="round")
    dots = rows_chart(brokers).mark_circle(color=INK, size=60, opacity=1)
    labels = rows_chart(brokers).mark_text(dy=-9, fontSize=10, color=INK)
    layer = alt.layer(
        lines.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", strokeWidth=width),
        dots.encode(x=x, y=y),
        labels.encode(x=x, y=y, text="name:N"),
    )
    return layer.properties(width=420, height=340, title=alt.TitleParams(title, color=INK, fontSize=14))


if __name__ == "__main__":
    observation = square(len(SITES), 96, 200)
    plan = Regraft().solve(observation)
    before, after = (plan.planner.cost(observation, each) for each in (plan.before, plan.after))
    panels = {
        f"before: cost {before:,.0f}": plan.before,
        f"after {len(plan.steps)} swaps: cost {after:,.0f}": plan.after,
    }
    target = ROOT / "docs/pictures/sites.svg"
    tree_picture(observation, panels, {"broker": SITES}).save(str(target), scale_factor=2)
    print(f"wrote {target.relative_to(ROOT)}")
