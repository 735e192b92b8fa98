"""Seeds at a worker: received, kept, imported."""
