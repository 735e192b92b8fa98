"""Membership: the members of the view, votes, and changes of views."""
