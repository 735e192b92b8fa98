"""Tests of `quadlog/quadstore/`."""
