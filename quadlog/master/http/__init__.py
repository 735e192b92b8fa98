"""HTTP interface of a master for clients, operators and other nodes."""
