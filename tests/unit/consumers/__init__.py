"""Of `consumers/`."""
