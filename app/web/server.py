"""Serves a WSGI application under gevent: bounded connections, bounded time for each step, no access log.

Needs no monkey patching by itself, but everything else in the process does: see `patch_process`.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gevent
import gevent.monkey
from gevent.pool import Pool
from gevent.pywsgi import Input, LoggingLogAdapter, WSGIHandler, WSGIServer

from app.adapters.ending import end_within
from app.errors import ConfigurationError
from app.web.protection import Protection

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

logger = logging.getLogger(__name__)

MAX_DRAINED_BYTES = 16 << 20
"""A body that is too long is thrown away so far: closing on unread bytes would reset the 413 away."""

_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_TOO_LARGE = (
    b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 20\r\n\r\nthe body is too long"
)


def patch_process() -> None:
    """Make the standard library cooperative; the first thing that a gevent process does."""
    gevent.monkey.patch_all()


def on_termination(end: Callable[[], None], grace_s: float) -> None:
    """Call `end` in a greenlet of its own at the first SIGTERM or SIGINT, and be gone within `grace_s`.

    A second signal ends the process at once.
    """
    # Wakes the loop at once, and keeps it waiting where there is nothing else to wait for.
    watcher = gevent.get_hub().loop.async_()
    watcher.start(lambda: gevent.spawn(end))
    end_within(grace_s, watcher.send)


def on_hang_up(reload: Callable[[], None]) -> None:
    """Call `reload` in a greenlet of its own for each SIGHUP; whatever was done for it before is not."""
    gevent.signal_handler(signal.SIGHUP, reload)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one server; times in seconds.

    Attributes:
        connections: open at once; more of them wait to be accepted.
        request_s: from a request's first byte to the end of its answer.
        first_s: from the connection to its first byte.
        idle_s: between two requests.
        body_bytes: longest body of a request; 413 for a longer one.
        handshake_s: for a client's part of the TLS handshake; others are served meanwhile.
    """

    connections: int = 256
    body_bytes: int = 64 * 1024
    request_s: float = 10.0
    first_s: float = 5.0
    idle_s: float = 60.0
    handshake_s: float = 5.0


class WebServer:
    """A listening server; `start` once, `stop` once.

    Args:
        port: 0 for a free one.
        protection: who may call, and TLS; None: everyone, plain HTTP.
    """

    def __init__(
        self,
        application: WSGIApplication,
        host: str,
        port: int,
        *,
        limits: Limits | None = None,
        protection: Protection | None = None,
    ) -> None:
        limits, protection = limits or Limits(), protection or Protection()
        tls = {} if protection.tls is None else {"ssl_context": protection.tls}
        self._asked = (host, port)
        self._idle: set[Any] = set()
        self._server = _Server(
            (host, port),
            protection.guard(application),
            spawn=Pool(limits.connections),
            log=None,
            # What clients get wrong is no error of ours; what the application does, it logs itself.
            error_log=LoggingLogAdapter(logger, level=logging.DEBUG),
            handler_class=lambda sock, address, server: _Handler(sock, address, server, limits, self._idle),
            # Else the server looks itself up in the DNS.
            environ={"SERVER_NAME": host},
            **tls,
        )
        self._server.handshake_s = limits.handshake_s

    def start(self) -> None:
        """Listen; connections are accepted by greenlets from now on.

        Raises:
            ConfigurationError: the address can't be listened on.
        """
        host, port = self._asked
        try:
            self._server.start()
        except OSError as error:
            problem = f"can't listen on {host} port {port}: {error.strerror or error}"
            raise ConfigurationError([problem], source="server") from None

    @property
    def port(self) -> int:
        """The port that it really listens on."""
        return int(self._server.server_port)

    def stop(self, timeout_s: float = 2.0) -> None:
        """Accept no more, close idle connections, give running requests that long, then end them."""
        self._server.close()
        gevent.killall(list(self._idle))
        self._server.stop(timeout=timeout_s)


class _Server(WSGIServer):  # type: ignore[misc]  # gevent has no types
    """A handshake is done in its connection's own greenlet, within its time."""

    handshake_s = 0.0

    def wrap_socket_and_handle(self, client_socket: Any, address: Any) -> None:
        """See `StreamServer.wrap_socket_and_handle`; whoever does not speak TLS is hung up on."""
        timeout = gevent.Timeout(self.handshake_s)
        # Not as part of wrapping: a handshake that runs out of time there leaves a socket that nobody closes.
        try:
            secure = self.wrap_socket(client_socket, do_handshake_on_connect=False, **self.ssl_args)
        except OSError:
            return  # The client has gone again.
        try:
            with timeout:
                secure.do_handshake()
            self.handle(secure, address)
        except gevent.Timeout as caught:
            if caught is not timeout:
                raise
            logger.debug("no TLS handshake in time")
        except OSError as err:
            logger.debug("no TLS", extra={"reason": str(err)[:200]})
        finally:
            secure.close()


class _Handler(WSGIHandler):  # type: ignore[misc]  # gevent has no types
    """One connection, with a limit for each of its steps; its greenlet is in `idle` between two requests."""

    def __init__(self, sock: Any, address: Any, server: Any, limits: Limits, idle: set[Any]) -> None:
        super().__init__(sock, address, server)
        self._limits = limits
        self._idle = idle
        self._silence_s = limits.first_s

    def handle_one_request(self) -> Any:
        """See `WSGIHandler.handle_one_request`; None ends the connection."""
        timeout = gevent.Timeout(self._silence_s)
        try:
            with timeout:
                if not self._wait_for_request():
                    return None
            self._silence_s = self._limits.idle_s
            timeout = gevent.Timeout(self._limits.request_s)
            with timeout:
                return super().handle_one_request()
        except gevent.Timeout as caught:
            if caught is not timeout:
                raise
            return None
        except OSError:
            return None

    def _wait_for_request(self) -> bool:
        """Wait for a first byte; False when the peer has closed the connection."""
        greenlet = gevent.getcurrent()
        self._idle.add(greenlet)
        try:
            return bool(self.rfile.peek(1))
        finally:
            self._idle.discard(greenlet)

    def read_request(self, raw_requestline: str) -> Any:
        """See `WSGIHandler.read_request`; a body that says it is too long is not even begun."""
        is_read = super().read_request(raw_requestline)
        if self.content_length is not None and self.content_length > self._limits.body_bytes:
            raise _TooLargeError
        return is_read

    def get_environ(self) -> Any:
        """See `WSGIHandler.get_environ`; the input is a bounded one."""
        environ = super().get_environ()
        plain = environ["wsgi.input"]
        self.wsgi_input: Any = _BoundedInput(
            self.rfile, self.content_length, socket=plain.socket, chunked_input=plain.chunked_input
        )
        self.wsgi_input.rest = MAX_DRAINED_BYTES
        environ["wsgi.input"] = self.wsgi_input
        return environ

    def _connection_upgrade_requested(self) -> bool:
        """Nothing is ever upgraded here: pywsgi would hand out the connection itself as the body."""
        return False

    def run_application(self) -> None:
        """See `WSGIHandler.run_application`; after its time is over nothing more of the body is read."""
        try:
            super().run_application()
        except gevent.Timeout:
            self.wsgi_input.rest = -1
            raise

    def handle_one_response(self) -> None:
        """See `WSGIHandler.handle_one_response`; a body of no end ends the connection."""
        super().handle_one_response()
        if self.wsgi_input.rest < 0:
            self.close_connection = True

    def handle_error(self, t: Any, v: Any, tb: Any) -> None:
        """A request that ran out of time, or a peer that went away, just ends; the rest is a bug."""
        if issubclass(t, gevent.Timeout | OSError):
            self.close_connection = True
        else:
            super().handle_error(t, v, tb)

    def _handle_client_error(self, ex: Exception) -> tuple[str, bytes]:
        """The answer to what is no request of ours; pywsgi would print a trace for some of them."""
        logger.debug("not a request", extra={"reason": type(ex).__name__})
        if not isinstance(ex, _TooLargeError):
            return ("400", _BAD_REQUEST)
        rest = min(self.content_length, MAX_DRAINED_BYTES)
        while rest > 0 and (piece := self.rfile.read1(min(rest, 16_384))):
            rest -= len(piece)
        return ("413", _TOO_LARGE)


class _TooLargeError(ValueError):
    """The request's body is longer than the server's limit."""


class _BoundedInput(Input):  # type: ignore[misc]  # gevent has no types
    """A request's body; what the application leaves of it is thrown away, if that is not too much.

    Attributes:
        rest: bytes that may still be thrown away, below 0 once that was not enough. (A body with a length is
            bounded already, one in chunks is not.)
    """

    rest = 0

    def _discard(self) -> None:
        if self.rest < 0:
            return
        if self._chunked_input_error or not self.chunked_input:
            super()._discard()
            return
        while piece := self.read(min(self.rest, 16_384) + 1):
            self.rest -= len(piece)
            if self.rest < 0:
                return
