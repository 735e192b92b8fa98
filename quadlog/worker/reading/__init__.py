"""A process that answers one query at a time, on a store of its own that may be killed with it."""
