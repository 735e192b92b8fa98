"""Seeds at a worker: how they are received, kept, and imported."""
