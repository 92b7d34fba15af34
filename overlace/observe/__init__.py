"""Traffic to observation, as batch functions."""
