"""Effects: the exact change made by a transaction, and the signature of the state after it."""
