"""Tests of `quadlog/core/effects/`."""
