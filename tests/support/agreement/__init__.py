"""Masters in simulated weather, and what has to hold of them."""
