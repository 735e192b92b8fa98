"""Of `quadlog/compare/`."""
