"""Histories of appends to lists, and whether they keep the promises of the cluster."""
