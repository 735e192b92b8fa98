"""Reports that a master has made of splits that are over, in a process of its own."""
