"""Of `quadlog/demo/`."""
