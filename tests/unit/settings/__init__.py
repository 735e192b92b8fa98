"""Of `quadlog/settings/`."""
