"""Metrics: rows that are found by name, scope and keys."""

import pytest

from overlace.metrics import Metrics


def test_metrics_are_found_by_name_scope_and_keys():
    metrics = Metrics(["hops", "load"], ["overall", "link"], [0, 3], [-1, 5], [4.5, 7])
    assert metrics.of("hops") == 4.5
    assert metrics.of("load", "link", 3, 5) == 7
    with pytest.raises(KeyError, match="load"):
        metrics.of("load")
