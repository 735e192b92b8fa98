"""Evaluation: one worker turns each agreed transaction into an effect, within limits."""
