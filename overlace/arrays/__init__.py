"""Kernels that know no publish/subscribe word: arrays in, arrays out, numpy and numba only."""
