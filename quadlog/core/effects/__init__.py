"""Effects: what a transaction does, exactly, and the signature of the state behind it."""
