"""Membership: who is in the view, who votes, and how views change."""
