"""Transfer of a store: packing, unpacking and backups."""
