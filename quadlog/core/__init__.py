"""What it all means: pure decisions.  No clock, no thread, no Kafka, no disk in here."""
