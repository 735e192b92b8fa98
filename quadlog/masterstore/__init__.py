"""A master's store on disk: the log, the joined log that is being read, and the state of its posts."""
