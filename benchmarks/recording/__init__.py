"""What benchmarks/record.py measures, a part each."""
