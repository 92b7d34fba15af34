"""Seeded observations after the papers' setups, for reproductions, benchmarks and tests."""
