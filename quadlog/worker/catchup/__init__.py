"""A worker that is behind: fed by a bundle, or by a copy of another worker."""
