"""One HTTP/1.1 and websocket server on one port, over h11 and wsproto.

Serves the in-VM daemon and the simulated fleet. Everything a peer can make us hold is bounded: connections,
header bytes, body bytes, message bytes, and the time for each step. A handler is one coroutine function:
a request in, a `Response` or an `Upgrade` out. Connections are kept alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from dataclasses import dataclass
from email.utils import formatdate

import h11

from app.guest.http_messages import Handler, Request, Response, Upgrade, text_response
from app.guest.websocket import READ_BYTES, WebSocket, WebSocketClosed
from app.guest.websocket_handshake import accept_upgrade
from app.protocols.guest_metrics import REFUSED

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one server; times in seconds, sizes in bytes.

    Attributes:
        connections: open at once; the next one is closed unanswered.
        request_s: from a request's first byte to the end of its body.
        idle_s: between two requests; a new connection has the shorter of both for its first byte.
        respond_s: for the handler, long polls included.
        write_s: for the peer to take an answer or a message.
        handshake_s: for a client's part of the TLS handshake; others are served meanwhile.
    """

    connections: int = 64
    header_bytes: int = 16_384
    body_bytes: int = 65_536
    message_bytes: int = 65_536
    request_s: float = 10.0
    idle_s: float = 75.0
    respond_s: float = 90.0
    write_s: float = 10.0
    handshake_s: float = 10.0


class Server:
    """A listening server; `start` once, `close` once."""

    def __init__(self, handler: Handler, *, limits: Limits | None = None, tls: ssl.SSLContext | None = None):
        self._handler = handler
        self._limits = limits or Limits()
        self._tls = tls
        self._listener: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._sockets: set[WebSocket] = set()
        self._idle: set[asyncio.Task[None]] = set()
        self._closing = False

    @property
    def connections(self) -> int:
        """Connections that are open now."""
        return len(self._connections)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; port 0 takes a free one. Gives the address that was taken.

        Raises:
            OSError: the address can't be had.
        """
        handshake_s = None if self._tls is None else self._limits.handshake_s
        self._listener = await asyncio.start_server(
            self._accepted, host, port, ssl=self._tls, backlog=128, ssl_handshake_timeout=handshake_s
        )
        address = self._listener.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def close(self, grace_s: float = 1.0) -> None:
        """Stop listening, end idle connections and websockets (1001), let answers go out for `grace_s`."""
        self._closing = True
        if self._listener is not None:
            self._listener.close()
        for task in tuple(self._idle):
            task.cancel()
        farewells = [each.close(1001, "going away") for each in tuple(self._sockets)]
        await asyncio.gather(*farewells, return_exceptions=True)
        pending = set(self._connections)
        if pending:
            _, pending = await asyncio.wait(pending, timeout=grace_s)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        is_too_many = len(self._connections) >= self._limits.connections
        if task is None or self._closing or is_too_many:
            if is_too_many:
                REFUSED.add("connections")
            writer.transport.abort()
            return
        self._connections.add(task)
        try:
            await self._serve(_Connection(reader, writer, self._limits), task)
        except (OSError, TimeoutError, asyncio.CancelledError, h11.ProtocolError):
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            self._idle.discard(task)
            writer.close()

    async def _serve(self, connection: _Connection, task: asyncio.Task[None]) -> None:
        while not self._closing:
            self._idle.add(task)
            is_begun = await connection.wait_for_request()
            self._idle.discard(task)
            if not is_begun:
                return
            try:
                request = await connection.read_request()
            except h11.RemoteProtocolError as err:
                await connection.send_error(err)
                return
            answer = await self._answer(request)
            if isinstance(answer, Upgrade):
                await self._upgrade(connection, request, answer)
                return
            await connection.send(answer, is_last=self._closing, is_head=request.method == "HEAD")
            if not connection.start_next_cycle():
                return

    async def _answer(self, request: Request) -> Response | Upgrade:
        try:
            async with asyncio.timeout(self._limits.respond_s):
                answer = await self._handler(request)
        except TimeoutError:
            return text_response("no answer in time", 503)
        except Exception:
            logger.exception("request handler failed", extra={"method": request.method, "path": request.path})
            return text_response("internal error", 500)
        if isinstance(answer, Upgrade) and not request.wants_websocket:
            return Response(426, b"a websocket is served here\n", headers=(("Upgrade", "websocket"),))
        return answer

    async def _upgrade(self, connection: _Connection, request: Request, upgrade: Upgrade) -> None:
        protocol = accept_upgrade(connection.raw_headers, request.path, connection.trailing_data())
        if isinstance(protocol, Response):
            await connection.send(protocol, is_last=True, is_head=False)
            return
        connection.keep_alive()
        await connection.write(protocol.greeting)
        conversation = WebSocket(
            connection.reader,
            connection.writer,
            protocol.connection,
            max_message_bytes=self._limits.message_bytes,
            write_timeout_s=self._limits.write_s,
        )
        self._sockets.add(conversation)
        try:
            await upgrade.converse(conversation)
        except WebSocketClosed as end:
            logger.debug("websocket ended", extra={"path": request.path, "code": end.code})
        except Exception:
            logger.exception("websocket handler failed", extra={"path": request.path})
            await conversation.close(1011, "internal error")
        finally:
            self._sockets.discard(conversation)
        await conversation.close()
        await conversation.linger()


class _Connection:
    """One connection's h11 state and its time limits."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits) -> None:
        self.reader = reader
        self.writer = writer
        self._limits = limits
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.header_bytes)
        peer = writer.get_extra_info("peername")
        self._peer = str(peer[0]) if isinstance(peer, tuple) else "local"
        self.raw_headers: list[tuple[bytes, bytes]] = []
        self._silence_s = min(limits.request_s, limits.idle_s)

    async def wait_for_request(self) -> bool:
        """Wait for the first byte of the next request; False at the end of the connection."""
        if self._h11.trailing_data[0]:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._silence_s):
                data = await self.reader.read(READ_BYTES)
                self._h11.receive_data(data)
                return bool(data)
        return False

    async def read_request(self) -> Request:
        """Raises TimeoutError or h11.RemoteProtocolError (413, 431 and 400 as its hint)."""
        body = bytearray()
        head: h11.Request | None = None
        self._silence_s = self._limits.idle_s
        async with asyncio.timeout(self._limits.request_s):
            while True:
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    await self._feed(is_body=head is not None)
                elif isinstance(event, h11.Request):
                    head = event
                    if _head_bytes(event) > self._limits.header_bytes:
                        raise h11.RemoteProtocolError("headers too large", error_status_hint=431)
                elif isinstance(event, h11.Data):
                    body += event.data
                    if len(body) > self._limits.body_bytes:
                        raise h11.RemoteProtocolError("body too large", error_status_hint=413)
                elif isinstance(event, h11.EndOfMessage) and head is not None:
                    return self._request(head, bytes(body))
                else:
                    raise h11.RemoteProtocolError("connection ended in a request", error_status_hint=400)

    async def _feed(self, *, is_body: bool) -> None:
        if is_body and self._h11.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            await self.write(self._h11.send(go_on) or b"")
        self._h11.receive_data(await self.reader.read(READ_BYTES))

    def _request(self, head: h11.Request, body: bytes) -> Request:
        self.raw_headers = [(bytes(name), bytes(value)) for name, value in head.headers]
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in self.raw_headers}
        path, _, query = head.target.decode("latin-1").partition("?")
        wants_websocket = headers.get("upgrade", "").lower() == "websocket"
        return Request(
            head.method.decode("ascii"),
            path,
            query,
            headers,
            body,
            self._peer,
            wants_websocket=wants_websocket,
        )

    async def send(self, answer: Response, *, is_last: bool, is_head: bool) -> None:
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("Date", formatdate(usegmt=True)),
            *answer.headers,
            *([("Connection", "close")] if is_last else []),
        ]
        out = [self._h11.send(h11.Response(status_code=answer.status, headers=headers)) or b""]
        if answer.body and not is_head:
            out.append(self._h11.send(h11.Data(data=answer.body)) or b"")
        out.append(self._h11.send(h11.EndOfMessage()) or b"")
        await self.write(b"".join(out))

    async def send_error(self, err: h11.RemoteProtocolError) -> None:
        """Answer what could not be read, where HTTP still allows it."""
        if self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = text_response("the request can't be read", err.error_status_hint)
            await self.send(answer, is_last=True, is_head=False)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        async with asyncio.timeout(self._limits.write_s):
            await self.writer.drain()

    def keep_alive(self) -> None:
        """Let the kernel notice a peer that vanished without a word (a websocket may be silent for long)."""
        raw = self.writer.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def start_next_cycle(self) -> bool:
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        self._h11.start_next_cycle()
        return True

    def trailing_data(self) -> bytes:
        return bytes(self._h11.trailing_data[0])


def _head_bytes(head: h11.Request) -> int:
    """Size of a request's line and headers; h11 bounds only what is not complete yet."""
    return len(head.target) + sum(len(name) + len(value) + 4 for name, value in head.headers)
