"""Queues of pairs: those that wait, those that each master has posted, and those that are synchronised."""
