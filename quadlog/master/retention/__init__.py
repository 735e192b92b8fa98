"""What is kept and for how long: archives, backups, topics that are trimmed, and their settings."""
