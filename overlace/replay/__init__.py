"""What a trace costs on an overlay, as batch functions."""
