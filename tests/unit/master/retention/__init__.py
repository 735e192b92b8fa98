"""Tests of `quadlog/master/retention/`."""
