"""How a worker is: stores that are counted anew, found wrong, and emptied to be fed again."""
