"""Queues: what each master has received from each, and posts."""
