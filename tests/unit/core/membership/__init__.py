"""Tests of `quadlog/core/membership/`."""
