"""Accept a websocket upgrade that h11 has read; no extension, no subprotocol."""

from __future__ import annotations

from dataclasses import dataclass

from wsproto import ConnectionType
from wsproto.connection import Connection
from wsproto.events import AcceptConnection
from wsproto.handshake import H11Handshake
from wsproto.utilities import RemoteProtocolError

from app.guest.http_messages import Response


@dataclass(frozen=True, slots=True)
class Accepted:
    """An upgrade to be sent: `greeting` is the 101 answer, `connection` the framing after it."""

    greeting: bytes
    connection: Connection


def accept_upgrade(headers: list[tuple[bytes, bytes]], path: str, trailing: bytes) -> Accepted | Response:
    """The 101 for these request headers, or the answer that says why not (400, 426).

    Args:
        headers: as h11 gave them.
        path: of the request.
        trailing: bytes that came behind the request already.
    """
    handshake = H11Handshake(ConnectionType.SERVER)
    try:
        handshake.initiate_upgrade_connection(headers, path)
        greeting = handshake.send(AcceptConnection())
    except (RemoteProtocolError, UnicodeError) as err:
        hint = getattr(err, "event_hint", None)
        status = getattr(hint, "status_code", 400)
        return Response(
            int(status), b"not a websocket handshake\n", headers=(("Sec-WebSocket-Version", "13"),)
        )
    return Accepted(greeting, Connection(ConnectionType.SERVER, trailing_data=trailing))
