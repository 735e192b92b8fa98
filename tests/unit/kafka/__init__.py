"""Of `quadlog/kafka/`."""
