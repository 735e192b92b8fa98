"""HTTP at a master: what clients, operators and other nodes ask for."""
