"""The replica: one thread that owns the store, reads the topics' records, and applies effects."""
