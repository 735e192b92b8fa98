"""A master that begins without its disk, without its Kafka, or with older copies of them."""
