"""Measurements: the cluster, and beside it in the same run what it is made of."""
