"""Of `quadlog/codec/`."""
