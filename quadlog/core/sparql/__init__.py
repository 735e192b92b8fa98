"""Parsing of SPARQL: locates the parts of a text and decodes its terms.  pyoxigraph checks the syntax."""
