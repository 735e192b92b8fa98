"""A store that is carried: packed, backed up, unpacked."""
