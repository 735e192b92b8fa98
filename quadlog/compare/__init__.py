"""Count, comparison and revert from outside the cluster: `quadlog verify`, `quadlog diff`, `quadlog tx revert`."""
