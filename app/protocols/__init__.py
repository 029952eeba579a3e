"""Wire formats and protocols, sans-I/O: bytes and objects in, events and messages out."""
