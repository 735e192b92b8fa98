"""Producers: one module per topic, which determines key, headers and bytes of the topic's records."""
