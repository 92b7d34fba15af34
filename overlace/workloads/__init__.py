"""Seeded observations and traces after each paper's setup, and at any size."""
