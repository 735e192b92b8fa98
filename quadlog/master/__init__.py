"""The master process: HTTP front end, rounds, order of transactions, supervision of workers."""
