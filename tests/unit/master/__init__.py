"""Of `quadlog/master/`."""
