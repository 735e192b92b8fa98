"""A master's store on disk: the log, the branch that is being read, and the state of its posts."""
