"""What workers hold, counted and compared from outside: `quadlog verify`, `quadlog diff`, `quadlog tx revert`."""
