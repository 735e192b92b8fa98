"""The node: one thread that owns the agreement, processes what arrives, and performs what is decided."""
