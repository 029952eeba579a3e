"""Calls one agent over HTTP: one request at a time, over a connection that is kept alive.

Each request's limit counts from when its turn has come, connecting included. Redirects are errors; what an
agent can make us read is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import h11

from app.protocols.informant import MAX_BODY_BYTES, AgentRequest

MAX_HEADER_BYTES = 16_384
MAX_EARLY_ANSWERS = 8
"""1xx answers that are passed over."""
_READ_BYTES = 65_536


class AgentCallFailed(Exception):
    """No answer that can be used; the text says why, without repeating what the address answered."""


@dataclass(slots=True)
class _Line:
    """An open connection; `is_used`: a request has been answered on it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    protocol: h11.Connection
    is_used: bool = False


class _ClosedUnused(Exception):
    """A kept connection ended before a byte of the answer: the other side had closed it."""


class AgentClient:
    """The caller of one registered agent; `close` ends it."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._turn = asyncio.Lock()  # guards the connection: requests go out in the order of the calls
        self._line: _Line | None = None

    async def ask(self, request: AgentRequest, body: bytes, *, limit_s: float) -> bytes:
        """Send one request, wait for its turn first; the body of the 200.

        Args:
            body: empty for a GET.

        Raises:
            AgentCallFailed: too late, unreachable, not a 200, too large, or not HTTP.
        """
        async with self._turn:
            try:
                async with asyncio.timeout(limit_s):
                    return await self._ask(request, body)
            except TimeoutError as err:
                self.close()
                raise AgentCallFailed(f"no answer within {limit_s:g} s") from err
            except (OSError, UnicodeError) as err:
                self.close()
                raise AgentCallFailed("unreachable, or the connection broke") from err
            except h11.ProtocolError as err:
                self.close()
                raise AgentCallFailed("the answer is not HTTP, or too large") from err
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Drop the connection."""
        line, self._line = self._line, None
        if line is not None:
            line.writer.transport.abort()

    async def _ask(self, request: AgentRequest, body: bytes) -> bytes:
        line = await self._kept_line() or await self._new_line()
        try:
            return await self._exchange(line, request, body)
        except _ClosedUnused as err:
            self.close()
            if request.method != "GET" or not line.is_used:
                raise AgentCallFailed("the connection ended before an answer") from err
        try:
            return await self._exchange(await self._new_line(), request, body)
        except _ClosedUnused as err:
            raise AgentCallFailed("the connection ended before an answer, twice") from err

    async def _kept_line(self) -> _Line | None:
        """The connection of the last request, unless it has ended or brought what nobody asked for."""
        line = self._line
        if line is None:
            return None
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(0):
                await line.reader.read(1)
                self.close()
        return self._line

    async def _new_line(self) -> _Line:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=_READ_BYTES)
        protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEADER_BYTES)
        self._line = _Line(reader, writer, protocol)
        return self._line

    async def _exchange(self, line: _Line, request: AgentRequest, body: bytes) -> bytes:
        host = f"[{self._host}]" if ":" in self._host else self._host
        headers = [("Host", f"{host}:{self._port}"), ("Accept", "application/json")]
        if body:
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        head = h11.Request(method=request.method, target=request.path, headers=headers)
        out = [line.protocol.send(head), line.protocol.send(h11.Data(data=body)) if body else b""]
        out.append(line.protocol.send(h11.EndOfMessage()))
        try:
            line.writer.write(b"".join(part or b"" for part in out))
            await line.writer.drain()
            line.protocol.receive_data(await self._first_bytes(line))
        except ConnectionError as err:
            raise _ClosedUnused from err
        answer = await self._read_answer(line)
        self._keep(line)
        return answer

    async def _first_bytes(self, line: _Line) -> bytes:
        data = await line.reader.read(_READ_BYTES)
        if not data:
            raise _ClosedUnused
        return data

    async def _read_answer(self, line: _Line) -> bytes:
        body = bytearray()
        early = 0
        while True:
            event = line.protocol.next_event()
            if event is h11.NEED_DATA:
                line.protocol.receive_data(await line.reader.read(_READ_BYTES))
            elif isinstance(event, h11.InformationalResponse):
                early += 1
                if early > MAX_EARLY_ANSWERS:
                    raise AgentCallFailed("too many early answers")
            elif isinstance(event, h11.Response):
                if event.status_code != 200:
                    kind = "redirected" if 300 <= event.status_code < 400 else "not a 200"
                    raise AgentCallFailed(kind)
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MAX_BODY_BYTES:
                    raise AgentCallFailed(f"an answer of over {MAX_BODY_BYTES} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return bytes(body)
            else:
                raise AgentCallFailed("the connection ended in an answer")

    def _keep(self, line: _Line) -> None:
        """Use the connection again, if both sides want to."""
        protocol = line.protocol
        if (
            protocol.our_state is h11.DONE
            and protocol.their_state is h11.DONE
            and not protocol.trailing_data[0]
        ):
            protocol.start_next_cycle()
            line.is_used = True
        else:
            self.close()
