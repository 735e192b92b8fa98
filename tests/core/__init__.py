"""Tests of what is pure."""
