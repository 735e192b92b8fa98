"""Apache Kafka without Docker: its jars, one broker as a process, its console tools."""
