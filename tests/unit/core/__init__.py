"""Of `quadlog/core/`, alone and in simulated weather."""
