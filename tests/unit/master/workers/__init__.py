"""Tests of `quadlog/master/workers/`."""
