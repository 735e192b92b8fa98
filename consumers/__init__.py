"""Where it is heard: what a topic's records come to mean, one module per topic."""
