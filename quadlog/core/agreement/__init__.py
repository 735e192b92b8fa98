"""Agreement on one order, by the longest common prefix of all queues."""
