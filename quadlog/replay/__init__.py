"""Spark jobs: compaction of backlogs, archives, and surveys of topics."""
