"""Of `quadlog/broker/`."""
