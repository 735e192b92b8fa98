"""Pure protocol logic: no clock, no threads, no Kafka and no disk access."""
