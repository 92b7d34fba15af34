"""Problems of dissemination trees, for tests: small ones with many ties, larger ones on a plane."""

import numpy as np
from hypothesis import strategies as st

from overlace.planners.dissemination.problem import make_problem


@st.composite
def problems(draw, least=1, most=6):
    """Any delays, bounds and degrees for which there is a tree; few different numbers, so that many are equal."""
    n = draw(st.integers(least, most))
    numbers = st.sampled_from([0.0, 1.0, 2.0, 3.5, 7.0, 20.0])
    delay = [[draw(numbers) for _ in range(n)] for _ in range(n)]
    bound = [draw(st.sampled_from([0.0, 2.0, 4.0, 8.0, 30.0, np.inf])) for _ in range(n)]
    root = draw(st.integers(0, n - 1))
    degree = [draw(st.integers(0, 3)) for _ in range(n)]
    degree[root] = max(1, degree[root])
    for v in range(n):
        degree[v] += max(0, n - 1 - sum(degree)) if v == root else 0
    return make_problem(delay, bound, degree, root)


def plane(n, degree, seed, stretch=(1.0, 2.0), hop=1.0):
    """n subscribers and a root strewn over a plane, bounds so many times the direct delay."""
    rng = np.random.default_rng(seed)
    place = rng.random((n + 1, 2)) * 50
    delay = np.hypot(*(place[:, None] - place[None]).transpose(2, 0, 1)) + hop
    bound = delay[0] * rng.uniform(*stretch, n + 1)
    return make_problem(delay, bound, degree, 0)
