"""Of `quadlog/core/sparql/`."""
