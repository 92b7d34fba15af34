import pytest

from overlace.errors import BadTrace
from overlace.workloads.generate import generate
from overlace.workloads.sites import Sites
from tests.traces import observe


@pytest.mark.parametrize("hard", [{}, {"scatter": True}, {"turns": 0.5, "loud": 0.6}])
def test_a_trace_does_not_depend_on_how_the_work_was_cut(tmp_path, hard):
    workload = Sites(messages=3000, clients=60, topics=40, days=3, **hard)
    traces = [generate(workload, str(tmp_path / f"{piece}"), piece=piece) for piece in (10_000, 700)]
    assert traces[0].digest() == traces[1].digest()
    assert traces[0].rows("messages") == 3000
    assert observe(traces[0]) == observe(traces[1])
    other = generate(Sites(messages=3000, clients=60, topics=40, days=3, seed=1, **hard), str(tmp_path / "other"))
    assert other.digest() != traces[0].digest()


def test_a_trace_is_not_overwritten_unless_forced(tmp_path):
    small = Sites(messages=100, clients=10, topics=5, days=1)
    first = generate(small, str(tmp_path / "t"))
    with pytest.raises(BadTrace, match="is a trace already"):
        generate(small, str(tmp_path / "t"))
    assert generate(small, str(tmp_path / "t"), force=True).digest() == first.digest()
