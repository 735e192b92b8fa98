"""The replica: one thread that owns the store, hears the topics, and applies effects."""
