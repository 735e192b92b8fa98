"""Recovery of a master that starts without its disk, without its Kafka, or with older copies of them."""
