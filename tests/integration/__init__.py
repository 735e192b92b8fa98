"""Tests of quadlog."""
