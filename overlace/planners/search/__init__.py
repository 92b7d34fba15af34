"""One search for placement, tree and both."""
