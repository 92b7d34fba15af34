"""Pictures and pages: the only package that plots."""
