"""Seeds at a master: large loads that bypass the log, from a client to all data centres."""
