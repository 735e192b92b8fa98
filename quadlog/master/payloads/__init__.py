"""Payloads: from the client to Kafka, from the peers, and back to whoever lacks them."""
