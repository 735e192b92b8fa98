"""One package, or a module at the top, at a time: no process and no broker."""
