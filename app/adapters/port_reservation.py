"""A port of this machine that is ours before anybody listens on it.

A free port that was only looked up may be another's a moment later. Here the socket stays bound, so that the
kernel gives the port to no one who asks for any; whoever asks for this very port with SO_REUSEADDR, as
servers do, gets it, and gets it again after a restart.
"""

from __future__ import annotations

import socket


class ReservedPort:
    """Holds a TCP port of a loopback address until it is closed or the process ends."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        """Take a free port.

        Raises:
            OSError: there is none.
        """
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.bind((host, 0))
        # Only now: set before, two reservations could be given the same port.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Give the port back; a second time does nothing."""
        self._socket.close()
