"""The worker process: a store, the log applied to it, reads answered from it."""
