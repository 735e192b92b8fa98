"""Workers and stores without a cluster."""
