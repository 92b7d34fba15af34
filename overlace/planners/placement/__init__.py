"""The facet `placement`: where clients connect (CC12)."""
