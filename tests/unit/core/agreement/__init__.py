"""Tests of `quadlog/core/agreement/`."""
