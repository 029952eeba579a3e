"""The server's end of a websocket: whole messages, bounded, over wsproto.

No extension is ever accepted: a peer that is known to refuse compression must be able to talk to us
(`spec/monitor-protocol.md`). Messages above the limit end the connection with 1009, what breaks the framing
with the code that wsproto names (1002, 1007).
"""

from __future__ import annotations

import asyncio
import contextlib

from wsproto.connection import Connection, ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage
from wsproto.utilities import LocalProtocolError

READ_BYTES = 65_536
"""Bytes taken from the socket at once."""
LINGER_S = 1.0
"""Seconds that we wait for the other side's close frame after ours."""


class WebSocketClosed(Exception):
    """The connection is over.

    Attributes:
        code: of the close frame; 1006 where the other side left without one.
    """

    def __init__(self, code: int, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(f"websocket closed: {code} {reason}".rstrip())


class WebSocket:
    """One open websocket; `receive` is called by one task, `send` and `close` by any."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        connection: Connection,
        *,
        max_message_bytes: int,
        write_timeout_s: float,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._connection = connection
        self._max_message_bytes = max_message_bytes
        self._write_timeout_s = write_timeout_s
        self._pieces: list[str | bytes] = []
        self._pieces_bytes = 0
        self._pending: list[str | bytes] = []
        self._closed: WebSocketClosed | None = None

    async def receive(self) -> str | bytes:
        """The next whole message; pings are answered meanwhile.

        Raises:
            WebSocketClosed: either side has ended the connection; raised again at each later call.
        """
        while True:
            if self._pending:
                return self._pending.pop(0)
            if self._closed is not None:
                raise self._closed
            await self._take_events()
            if self._pending or self._closed is not None:
                continue
            try:
                data = await self._reader.read(READ_BYTES)
            except OSError:
                data = b""
            if self._closed is None:
                self._connection.receive_data(data or None)

    async def send(self, text: str) -> None:
        """Send one text message, waiting while the other side does not read.

        Raises:
            WebSocketClosed: the connection is over, or the other side did not read in time.
        """
        if self._closed is not None:
            raise self._closed
        await self._write(TextMessage(data=text))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame; the second time does nothing, nor does it after the other side's."""
        if self._closed is not None:
            return
        self._closed = WebSocketClosed(code, reason)
        with contextlib.suppress(WebSocketClosed):
            await self._write(CloseConnection(code=code, reason=reason[:120]))

    async def linger(self) -> None:
        """Read on for a moment, so that our close frame is not lost to a reset."""
        if self._connection.state is not ConnectionState.LOCAL_CLOSING:
            return
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(LINGER_S):
                while self._connection.state is ConnectionState.LOCAL_CLOSING:
                    data = await self._reader.read(READ_BYTES)
                    self._connection.receive_data(data or None)
                    for _ in self._connection.events():
                        continue

    async def _take_events(self) -> None:
        for event in self._connection.events():
            match event:
                case TextMessage() | BytesMessage():
                    await self._take_piece(event)
                case Ping():
                    with contextlib.suppress(WebSocketClosed):
                        await self._write(event.response())
                case CloseConnection():
                    await self._take_close(event)
            if self._closed is not None:
                return

    async def _take_piece(self, event: TextMessage | BytesMessage) -> None:
        data = bytes(event.data) if isinstance(event, BytesMessage) else event.data
        binary = data if isinstance(data, bytes) else data.encode("utf-8", "replace")
        self._pieces_bytes += len(binary)
        if self._pieces_bytes > self._max_message_bytes:
            self._pieces.clear()
            await self.close(1009, f"message over {self._max_message_bytes} bytes")
            return
        if data:
            self._pieces.append(data)
        if event.message_finished:
            whole = b"".join(piece for piece in self._pieces if isinstance(piece, bytes))
            text = "".join(piece for piece in self._pieces if isinstance(piece, str))
            self._pending.append(whole if isinstance(data, bytes) else text)
            self._pieces.clear()
            self._pieces_bytes = 0

    async def _take_close(self, event: CloseConnection) -> None:
        if self._connection.state is not ConnectionState.CLOSED:
            with contextlib.suppress(WebSocketClosed, LocalProtocolError):
                await self._write(event.response())
        self._closed = self._closed or WebSocketClosed(int(event.code), str(event.reason or ""))

    async def _write(self, event: Event) -> None:
        try:
            self._writer.write(self._connection.send(event))
            async with asyncio.timeout(self._write_timeout_s):
                await self._writer.drain()
        except (OSError, TimeoutError, LocalProtocolError) as err:
            self._closed = self._closed or WebSocketClosed(1006, "the other side is gone or does not read")
            self._writer.transport.abort()
            raise self._closed from err
