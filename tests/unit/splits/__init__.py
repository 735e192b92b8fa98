"""Of `quadlog/splits/`."""
