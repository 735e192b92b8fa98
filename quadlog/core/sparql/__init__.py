"""Reading SPARQL: where things are in a text, and what its terms say.  pyoxigraph judges the syntax."""
