"""Tests of `quadlog/core/queues/`."""
