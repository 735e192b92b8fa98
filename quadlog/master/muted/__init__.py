"""A muted master: it copies the log and the effects of another data centre, and serves the reads of its workers."""
