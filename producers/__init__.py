"""Where it is said: one module per topic.  Each decides key, headers and bytes of its records."""
