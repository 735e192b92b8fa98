"""The worker process: it applies the log to a store and answers reads from the store."""
