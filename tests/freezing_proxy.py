"""A TCP proxy for tests of half-open connections: freezes those that are chosen; can end TLS at its door."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")

PIECE = 65_536
"""Bytes read at once."""

KEPT = 4_096
"""Bytes of what a client sent first, by which its connection is told from others."""


@dataclass(eq=False)
class _Link:
    """One client and its connection to the target."""

    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    sent: bytes = b""
    is_frozen: bool = False


class FreezingProxy:
    """Listens on a free port of 127.0.0.1, in a thread of its own; `close` ends everything.

    Args:
        target: host and port, or the path of a unix socket.
        tls: what clients are greeted with; the target is always spoken to in plain.

    Attributes:
        port: where it listens; stays the same until `close`.
    """

    def __init__(self, target: tuple[str, int] | Path, *, tls: ssl.SSLContext | None = None) -> None:
        self.target = target
        self._tls = tls
        self._links: set[_Link] = set()
        self._freezes_new = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="freezing proxy", daemon=True)
        self._thread.start()
        self.port: int = self._call(self._listen())

    def freeze(self, sent: bytes = b"", *, also_new: bool = False) -> int:
        """Lose what goes over connections whose client has sent these bytes, in both directions, for ever.

        The connections stay open: no RST, no FIN. `also_new` does it to all that come later, until `thaw`.
        How many were frozen.
        """

        def freeze() -> int:
            chosen = [link for link in self._links if sent in link.sent and not link.is_frozen]
            for link in chosen:
                link.is_frozen = True
            self._freezes_new = also_new
            return len(chosen)

        return self._run(freeze)

    def thaw(self) -> None:
        """Pass new connections again; those that are frozen have lost bytes and stay so."""
        self._run(lambda: setattr(self, "_freezes_new", False))

    def cut(self) -> None:
        """Close all connections."""
        self._run(self._close_links)

    def close(self) -> None:
        """Close all connections and listen no more."""
        self._run(self._server.close)
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return int(self._server.sockets[0].getsockname()[1])

    async def _end(self) -> None:
        self._close_links()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link([writer], is_frozen=self._freezes_new)
        self._links.add(link)
        passing: list[asyncio.Future[None]] = []
        try:
            if isinstance(self.target, Path):
                near, far = await asyncio.open_unix_connection(str(self.target))
            else:
                near, far = await asyncio.open_connection(*self.target)
            link.writers.append(far)
            passing = [
                asyncio.ensure_future(_pass(reader, far, link, keep=True)),
                asyncio.ensure_future(_pass(near, writer, link, keep=False)),
            ]
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        except (OSError, asyncio.CancelledError):
            return  # the target is away, or the proxy closes: the client sees its connection closed
        finally:
            self._links.discard(link)
            for task in passing:
                task.cancel()
            for each in link.writers:
                each.close()

    def _close_links(self) -> None:
        for link in list(self._links):
            for writer in link.writers:
                writer.transport.abort()

    def _run(self, action: Callable[[], Result]) -> Result:
        async def run() -> Result:
            return action()

        return self._call(run())

    def _call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter, link: _Link, *, keep: bool) -> None:
    while True:
        try:
            data = await source.read(PIECE)
            if not data and link.is_frozen:
                await asyncio.Event().wait()  # nobody hears of the end either
            if not data:
                return
            if keep and len(link.sent) < KEPT:
                link.sent += data
            if not link.is_frozen:
                sink.write(data)
                await sink.drain()
        except OSError:
            return
