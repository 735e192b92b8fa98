"""Tests of `quadlog/worker/replica/`."""
