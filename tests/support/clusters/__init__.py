"""Whole clusters of real processes: clients, faults, and what there is to be seen in the end."""
