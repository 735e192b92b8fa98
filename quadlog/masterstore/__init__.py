"""A master's store on disk: the log, its branches, and what it said."""
