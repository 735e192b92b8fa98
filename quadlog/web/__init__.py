"""HTTP for all nodes: servers, clients, bodies and answers."""
