"""The agreed log at a master: writing it, joining another side's log, retaining payloads."""
