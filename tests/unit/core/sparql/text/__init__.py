"""Tests of `quadlog/core/sparql/text/`."""
