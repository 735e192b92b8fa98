"""The workers of a data centre as their master sees them."""
