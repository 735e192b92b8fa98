"""The topics that a master reads, in its own Kafka and in those of its peers."""
