"""The agreed log as a master keeps it: writing it, joining that of others, and what is retained."""
