"""The node: one thread that owns the agreement, hears what comes, and performs what is decided."""
