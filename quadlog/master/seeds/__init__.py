"""Seeds at a master: large loads that go around the log, from a client to all data centres."""
