"""Catching up of a worker that is behind: by a bundle, by a copy of another worker, or by a backup."""
