"""Transactions of clients: admission, limits, and the answer when the outcome is known."""
