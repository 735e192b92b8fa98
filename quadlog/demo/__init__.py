"""The demo: an ontology goes into three data centres at once, and every worker proves that it has it."""
