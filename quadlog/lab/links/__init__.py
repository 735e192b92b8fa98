"""The links between the data centres of a lab: relays that can be cut, delayed and limited.

A connection from dc1 to dc2 (Kafka or HTTP) enters at a *door*, a port of the links process, and is relayed to its
server.  The terms:

    link        two data centres; has a latency and a rate
    lane        one direction of a link's bytes: its delay, its tokens, shared by all connections
    route       (opener, target): the connections that one of the two opened; may be cut
    door        one port of a route, for one broker or master of the target
    connection  two sockets, and a flow for each direction
"""
