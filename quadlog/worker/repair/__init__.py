"""Health of a worker's store: the store is recounted, and if it is wrong, emptied and fed again."""
