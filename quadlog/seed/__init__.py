"""`quadlog import` and `quadlog export`: a whole repository from what others wrote, and back."""
