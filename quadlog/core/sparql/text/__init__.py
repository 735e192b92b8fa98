"""SPARQL text: its tokens and terms, and what it asks of pyoxigraph."""
