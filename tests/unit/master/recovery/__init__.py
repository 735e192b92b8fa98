"""Tests of `quadlog/master/recovery/`."""
