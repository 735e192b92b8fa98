"""quadlog: a multi-master cluster for quads, whose masters share one log of transactions."""

__version__ = "0.1.0"
