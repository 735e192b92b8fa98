"""The lab: a whole cluster of real processes on one host, for demos and tests."""
