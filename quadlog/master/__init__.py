"""The master process: front door, rounds, order, worker supervision."""
