"""Tests of `quadlog/worker/reads/`."""
