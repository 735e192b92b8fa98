"""Tests of `quadlog/master/muted/`."""
