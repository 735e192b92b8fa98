"""Tests of `quadlog/master/log/`."""
