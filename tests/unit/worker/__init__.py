"""Of `quadlog/worker/`."""
