"""Tests that take the one cluster of `conftest.py`, and leave it as they found it."""
