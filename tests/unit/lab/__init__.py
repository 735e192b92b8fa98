"""Of `quadlog/lab/`."""
