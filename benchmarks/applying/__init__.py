"""What `benchmarks/live.py` measures."""
