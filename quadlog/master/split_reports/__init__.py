"""Reports of splits that are over: when they are made, by which process, and where clients read them."""
