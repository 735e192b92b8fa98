"""The lab: a whole cluster of real processes on this machine, for demos and tests."""
