"""RDF documents as clients send them."""
