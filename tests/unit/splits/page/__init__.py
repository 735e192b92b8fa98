"""Of `quadlog/splits/page/`."""
