"""Effects from a master's view: which data centre evaluates, what is copied between data centres, what is decided."""
