"""The demo: loads an ontology through three data centres at once, and verifies the copy of every worker."""
