"""The quad store on disk: commits, signatures, and queries with their answers."""
