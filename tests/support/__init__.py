"""What tests have in common, and no test."""
