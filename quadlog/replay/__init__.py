"""Spark jobs: backlogs that are compacted, archives, and what a topic holds."""
