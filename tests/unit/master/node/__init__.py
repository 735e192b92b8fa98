"""Tests of `quadlog/master/node/`."""
