"""Parts of the HTML page of a report."""
