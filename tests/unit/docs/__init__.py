"""Of the guides in `docs/`, by what they describe."""
