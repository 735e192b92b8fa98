"""Of what judges other tests."""
