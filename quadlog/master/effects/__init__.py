"""Effects as a master sees them: who evaluates, what is copied between data centres, what is decided."""
