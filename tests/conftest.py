import os

from hypothesis import HealthCheck, settings

# Compiling a kernel for the first time takes a second: no deadline. CI always draws the same examples.
plain = os.environ.get("NUMBA_DISABLE_JIT") == "1"
settings.register_profile(
    "overlace",
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=30 if plain else 100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("overlace")
