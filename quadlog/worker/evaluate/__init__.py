"""Evaluation: an agreed transaction becomes an effect, within limits, in one worker."""
