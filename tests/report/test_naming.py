import pytest

from overlace.catalog import PLANNERS
from overlace.model import Network
from overlace.optimize.words import COSTS, LABELS, Units, own_cost_unit
from overlace.replay.definitions import METRICS
from overlace.report.naming import Naming


@pytest.mark.parametrize("name", sorted(PLANNERS))
def test_every_planner_s_own_cost_has_a_unit(name):
    planner = PLANNERS[name]()
    unit = own_cost_unit(planner.facets, vars(planner))
    assert unit
    if "channels" not in planner.facets and "mesh" not in planner.facets:
        traffic, _, distance = unit.partition(" × ")
        assert traffic in ("messages", "bytes")
        assert distance in ("cost of links", "links", "hops", "µs")
        if distance == "cost of links":
            assert own_cost_unit(planner.facets, vars(planner), Units("ms")) == f"{traffic} × ms of links"


def test_an_objective_says_what_is_counted():
    assert own_cost_unit(("placement", "tree"), {"objective": "hops", "weight": "messages"}) == "messages × hops"
    assert own_cost_unit(("placement", "tree"), {"objective": "latency"}) == "messages × µs"
    assert own_cost_unit(("placement",), {"distance": "cost", "weight": "bytes"}) == "bytes × cost of links"
    assert own_cost_unit(("channels",), {}) == "messages received"


def test_labels_are_of_metrics_and_costs_have_units():
    assert LABELS.keys() <= METRICS.keys()
    for unit, text in {
        "message": "messages × cost of links",
        "gb": "GB × price of links",
        "ms": "messages × ms of links",
    }.items():
        assert all(text in Naming(units=Units(unit)).metric(metric) for metric in COSTS)


def test_where_no_link_has_a_cost_links_are_counted_and_that_is_said():
    counted = "links; no link has a cost: each is taken to cost 1"
    assert Naming(units=Units(priced=False)).metric("cost") == f"traffic cost (messages × {counted})"
    assert Naming(units=Units("gb", False)).cost_unit == f"GB × {counted}"
    assert own_cost_unit(("tree",), {"weight": "bytes"}, units=Units(priced=False)) == f"bytes × {counted}"
    assert own_cost_unit(("placement",), {"distance": "hops"}, units=Units(priced=False)) == "messages × hops"


def test_definitions_speak_of_regions_to_those_who_gave_some():
    apart, together = Naming(network=Network(region=[0, 1])), Naming(network=Network(region=[0, 0]))
    assert "region" not in apart.definition("cost")
    assert together.definition("cost") == METRICS["cost"].definition
    assert (apart.regions_given, together.regions_given) == (False, True)
