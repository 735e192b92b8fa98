"""`quadlog import` and `quadlog export`: a whole repository from and to RDF files."""
