"""The facet `mesh`: which peers are linked (TDCD17)."""
