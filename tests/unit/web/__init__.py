"""Tests of `quadlog/web/`."""
