"""A TCP proxy in front of a server, to cut the network: packets vanish without a word, or connections break.

Several proxies share one thread with an event loop. All methods may be called from any thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

_READ_BYTES = 256 * 1024


class ProxyLoop:
    """The thread that moves the bytes of its proxies; `close` ends it and them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine there, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def soon(self, action: Callable[[], None]) -> None:
        """Run a function there."""
        self._loop.call_soon_threadsafe(action)

    def close(self) -> None:
        """End all that runs there."""

        async def finish() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        with contextlib.suppress(TimeoutError):
            self.call(finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()


class TcpProxy:
    """Listens on a free loopback port and passes on to `target`: a unix socket, or host and port.

    Attributes:
        port: where it listens.
    """

    def __init__(self, loop: ProxyLoop, target: Path | tuple[str, int]) -> None:
        self._loop = loop
        self._target = target
        self._pipes: set[asyncio.StreamWriter] = set()
        self._flows: asyncio.Event
        self._server: asyncio.Server
        loop.call(self._start())

    async def _start(self) -> None:
        self._flows = asyncio.Event()
        self._flows.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def drop(self) -> None:
        """From now on nothing passes, in neither direction, ends of connections included; nobody is told."""
        self._loop.soon(self._flows.clear)

    def resume(self) -> None:
        """All passes again; what was held back is delivered late, as TCP does after a cut."""
        self._loop.soon(self._flows.set)

    def reset(self) -> None:
        """Break all connections with RST, what was held back is lost; new ones pass."""

        def act() -> None:
            for writer in tuple(self._pipes):
                _abort(writer)
            self._flows.set()

        self._loop.soon(act)

    def close(self) -> None:
        """Stop listening and break what is open."""
        self._loop.soon(self._server.close)
        self.reset()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._pipes.add(writer)
        upward: asyncio.StreamWriter | None = None
        try:
            await self._flows.wait()
            if writer.transport.is_closing():
                return
            downward, upward = await self._connect()
            self._pipes.add(upward)
            await asyncio.gather(self._pump(reader, upward), self._pump(downward, writer))
        except OSError:
            _abort(writer)
        finally:
            for end in (writer, upward):
                if end is not None:
                    self._pipes.discard(end)
                    _abort(end)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, Path):
            return await asyncio.open_unix_connection(str(self._target))
        return await asyncio.open_connection(*self._target)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            data = await reader.read(_READ_BYTES)
            await self._flows.wait()
            if not data:
                if writer.can_write_eof():
                    writer.write_eof()
                return
            writer.write(data)
            await writer.drain()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with RST where it is TCP."""
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.family != socket.AF_UNIX:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
