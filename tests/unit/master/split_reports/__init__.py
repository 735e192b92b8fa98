"""Of `quadlog/master/split_reports/`."""
