"""A master in part, without a cluster: its node, stores, doors and what it says."""
