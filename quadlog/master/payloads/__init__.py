"""Payloads: written to Kafka for clients, copied from peers, and passed on to data centres that lack them."""
