"""Agreement: one order, from the longest common prefixes of all queues."""
