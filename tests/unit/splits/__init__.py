"""Tests of quadlog.splits."""
