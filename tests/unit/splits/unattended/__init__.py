"""Of `quadlog/splits/unattended/`."""
