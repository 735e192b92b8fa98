"""Tests of `quadlog/replay/`."""
