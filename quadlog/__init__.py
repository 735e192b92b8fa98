"""quadlog: many masters share one log of quads."""

__version__ = "0.1.0"
