"""Tests of `quadlog/master/effects/`."""
