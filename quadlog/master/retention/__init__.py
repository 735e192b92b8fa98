"""Retention: archives, backups, trimming of topics, and checks of their settings."""
