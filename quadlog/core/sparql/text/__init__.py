"""SPARQL text: its tokens and terms, and the load that it causes in pyoxigraph."""
