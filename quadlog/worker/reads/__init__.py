"""Queries at a worker: which process answers, in which order, within which limits."""
