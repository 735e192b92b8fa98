"""Consumers: one module per topic, which interprets the topic's records."""
