"""Connections to vm-monitors: `app.protocols.monitor_agent` over a websocket (`spec/monitor-protocol.md`).

Whoever owns a connection lends it the thread (a greenlet in a patched process) that receives, checks health
and calls back: one of its own for each would take half the memory of a connection (`docs/benchmarks.md`).
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from app.adapters.bounded_websocket import SEND_TIMEOUT_S, BoundedWebSocket, ConnectionEnded, FrameWatcher
from app.adapters.client_tls import ClientTls
from app.core.resources import Resources
from app.errors import PeerError, PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.agent_metrics import MONITOR_OUTBOUND
from app.ports.peers import DownscaleAnswer, MonitorCallbacks
from app.ports.sender import Sender
from app.ports.vm import Address
from app.protocols.monitor_agent import (
    AgentConnection,
    AgentEffect,
    CallAnswered,
    CallFailed,
    Close,
    MonitorResult,
    MoreResourcesAsked,
    Question,
    Send,
)
from app.protocols.monitor_health import HEALTH_CHECK_PERIOD_S, HealthChecks
from app.protocols.monitor_wire import (
    MAX_READ_BYTES,
    NORMAL_CLOSURE,
    UNEXPECTED_CONDITION,
    DownscaleRequest,
    HealthCheck,
    UpscaleNotification,
)

logger = logging.getLogger(__name__)

MONITOR_PATH = "/monitor"
JOIN_S = 5.0
"""How long `close` waits for the thread in the background."""


class _Pending:
    """A call that waits."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: MonitorResult | None = None
        self.error: PeerError | None = None


class Dispatcher:
    """One live connection to a vm-monitor: the `MonitorSession` port. Ends once, for good.

    Args:
        websocket: after the upgrade, before the protocol's own handshake.
        callbacks: called from the thread that serves, `on_exit` from the one that ends the connection.
        response_timeout_s: for the answer to a health check.
        max_failures_s: how long health checks may fail in a row.
        health_period_s: seconds between health checks.
    """

    def __init__(
        self,
        websocket: BoundedWebSocket,
        callbacks: MonitorCallbacks,
        *,
        response_timeout_s: float,
        max_failures_s: float,
        health_period_s: float = HEALTH_CHECK_PERIOD_S,
    ) -> None:
        self._websocket = websocket
        self._peer = websocket.peer
        self._callbacks = callbacks
        self._response_timeout_s = response_timeout_s
        # Guards `_core`, `_pending`, `_exit_error` and `_is_served`; no I/O and no callback under it.
        self._lock = threading.Lock()
        self._core = AgentConnection()
        self._pending: dict[int, _Pending] = {}
        self._exit_error: str | None = None
        self._close_code: int | None = None
        self.exit_signal = threading.Event()
        self._health = HealthChecks(time.monotonic(), max_failures_s=max_failures_s, period_s=health_period_s)
        self._health_call: int | None = None
        self._health_deadline = math.inf
        self._is_served = False
        self._reader: threading.Thread | None = None

    def open(self, deadline: float) -> None:
        """Shake hands; called once, before anything else.

        Raises:
            PeerTimedOut: no answer by the deadline.
            PeerRefused: no shared version, or the peer hung up.
        """
        try:
            self._websocket.send(self._core.start())
            answer = self._websocket.receive(deadline)
        except ConnectionEnded as err:
            self._websocket.finish(err.close_code)
            raise PeerRefused(self._peer, err.problem) from err
        if answer is None:
            self._websocket.finish(NORMAL_CLOSURE)
            raise PeerTimedOut(self._peer, "no answer to the handshake in time")
        for effect in self._core.receive(answer):
            if isinstance(effect, Close):
                self._websocket.finish(effect.code)
                raise PeerRefused(self._peer, effect.problem)

    def serve(self, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """See `MonitorSession.serve`."""
        with self._lock:
            self._is_served = True
        try:
            while not self.exited and is_wanted():
                self._tend_health(time.monotonic())
                data = self._websocket.receive(min(self._health.next_at, self._health_deadline))
                if data is not None:
                    self.handle_message(data)
        except ConnectionEnded as err:
            self._exit(err.problem, err.close_code)
        except Exception:
            logger.exception("monitor connection failed", extra={"peer": self._peer})
            self._exit("an internal error of ours", UNEXPECTED_CONDITION)
        finally:
            self._exit("not wanted any more", NORMAL_CLOSURE)
            self._websocket.finish(self._close_code)

    def serve_in_background(self) -> None:
        """Serve in a thread of its own, for callers that ask a question or two; called once."""
        self._reader = threading.Thread(target=self.serve, name=f"monitor {self._peer}", daemon=True)
        self._reader.start()

    @property
    def exited(self) -> bool:
        """Whether the connection is over."""
        return self.exit_signal.is_set()

    @property
    def exit_error(self) -> str | None:
        """Why it is over; None while it isn't."""
        return self._exit_error

    @property
    def waiters_size(self) -> int:
        """Calls that wait for an answer, health checks included."""
        return self._core.waiters_size

    def call(self, message: Question, *, timeout_s: float) -> MonitorResult:
        """Ask, and wait for the answer.

        Raises:
            PeerUnreachable: the connection was over before; nothing was sent.
            PeerTimedOut: no answer in time, or the connection ended meanwhile: it may have taken effect.
            PeerRefused: the monitor answered with an error, or with something else.
        """
        pending = _Pending()
        deadline = time.monotonic() + timeout_s
        call_id, data = self._register(message, pending)
        self._send(data, timeout_s)
        pending.done.wait(max(deadline - time.monotonic(), 0.0))
        with self._lock:
            self._pending.pop(call_id, None)
            self._core.forget(call_id)
        if pending.error is not None:
            raise pending.error
        if pending.result is None:
            raise PeerTimedOut(self._peer, f"no answer to {type(message).__name__} in time")
        return pending.result

    def downscale(self, target: Resources, slot_bytes: int, *, timeout_s: float) -> DownscaleAnswer:
        """See `MonitorSession.downscale`."""
        question = DownscaleRequest(target.cpu / 1000, target.mem * slot_bytes)
        answer = self.call(question, timeout_s=timeout_s).downscale
        if answer is None:
            raise PeerRefused(self._peer, "an answer without a downscale result")
        return DownscaleAnswer(answer.ok, answer.status)

    def upscale(self, granted: Resources, slot_bytes: int, *, timeout_s: float) -> None:
        """See `MonitorSession.upscale`."""
        self.call(UpscaleNotification(granted.cpu / 1000, granted.mem * slot_bytes), timeout_s=timeout_s)

    def close(self) -> None:
        """See `MonitorSession.close`; waits for the thread in the background unless called from it."""
        # With the code, for the thread that serves may notice first: then it is the one to say goodbye.
        if self._exit("closed by us", NORMAL_CLOSURE):
            self._websocket.shut(NORMAL_CLOSURE)
        with self._lock:
            is_served = self._is_served
        if self._reader is not None and self._reader is not threading.current_thread():
            self._reader.join(JOIN_S)
        elif not is_served:
            self._websocket.finish(None)

    def handle_message(self, data: bytes) -> None:
        """Decode one message and hand it to the right handler."""
        with self._lock:
            effects = self._core.receive(data)
        for effect in effects:
            self._perform(effect)

    def _register(self, message: Question, pending: _Pending | None) -> tuple[int, bytes]:
        with self._lock:
            if not self._core.is_open:
                raise PeerUnreachable(self._peer, "the connection is over")
            call_id, data = self._core.call(message)
            if pending is not None:
                self._pending[call_id] = pending
        return call_id, data

    def _send(self, data: bytes, timeout_s: float = SEND_TIMEOUT_S) -> None:
        """Send, and end the connection if that fails or takes longer."""
        try:
            self._websocket.send(data, min(timeout_s, SEND_TIMEOUT_S))
        except ConnectionEnded as err:
            if self._exit(err.problem, None):
                self._websocket.shut(None)

    def _perform(self, effect: AgentEffect) -> None:
        match effect:
            case Send(data):
                self._send(data)
            case Close(code, problem):
                self._exit(problem, code)
            case CallAnswered(call_id, result):
                self._callbacks.on_success()
                self._settle(call_id, result, None)
            case CallFailed(call_id, problem):
                self._settle(call_id, None, PeerRefused(self._peer, problem))
            case MoreResourcesAsked():
                self._callbacks.on_upscale_request()
            case _:
                # `Opened` comes in the handshake only, which `open` handles.
                return

    def _settle(self, call_id: int, result: MonitorResult | None, error: PeerError | None) -> None:
        """A call has ended: wake who waits; the health check's own waiter is the reader."""
        if call_id == self._health_call:
            self._end_health_check(is_success=result is not None)
        with self._lock:
            pending = self._pending.pop(call_id, None)
        if pending is not None:
            pending.result, pending.error = result, error
            pending.done.set()

    def _exit(self, problem: str, close_code: int | None) -> bool:
        """The connection is over: release all waiters at once, tell the runner. Once: whether now."""
        with self._lock:
            if self._exit_error is not None:
                return False
            self._exit_error = problem
            self._close_code = close_code
            self._core.end(problem)
            waiting, self._pending = list(self._pending.values()), {}
        for pending in waiting:
            pending.error = PeerTimedOut(self._peer, f"the connection ended: {problem}")
            pending.done.set()
        self.exit_signal.set()
        self._callbacks.on_exit(problem)
        return True

    def _tend_health(self, now: float) -> None:
        """Begin a check that is due, give up one that was not answered in time."""
        if self._health_call is not None and now >= self._health_deadline:
            with self._lock:
                self._core.forget(self._health_call)
            self._end_health_check(is_success=False)
        if self._health.is_due(now) and not self.exited:
            self._health.begin(now)
            try:
                self._health_call, data = self._register(HealthCheck(), None)
            except PeerUnreachable:
                return
            self._health_deadline = now + self._response_timeout_s
            self._send(data)

    def _end_health_check(self, *, is_success: bool) -> None:
        failure = "timeout" if time.monotonic() >= self._health_deadline else "unreachable"
        MONITOR_OUTBOUND.add("HealthCheck", "ok" if is_success else failure)
        self._health_call, self._health_deadline = None, math.inf
        if is_success:
            self._health.succeed()
        elif self._health.fail(time.monotonic()):
            self._exit("health checks went unanswered for too long", UNEXPECTED_CONDITION)


class MonitorDialer:
    """The `MonitorConnector` port.

    Args:
        max_failures_s: how long health checks may fail in a row before a connection is given up.
        response_timeout_s: for the answer to a health check.
        health_period_s: seconds between health checks.
        bearer: a token that lets us in, for monitors that ask for one.
        watcher: is shown each message.
        sender: who dials; None outside a worker.
        tls: whom we believe; None: no TLS.
    """

    def __init__(
        self,
        max_failures_s: float,
        *,
        response_timeout_s: float = 5.0,
        health_period_s: float = HEALTH_CHECK_PERIOD_S,
        bearer: str | None = None,
        watcher: FrameWatcher | None = None,
        sender: Sender | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        self._tls = tls
        self._headers = None if sender is None else sender.headers()
        self._max_failures_s = max_failures_s
        self._response_timeout_s = response_timeout_s
        self._health_period_s = health_period_s
        self._bearer = bearer
        self._watcher = watcher

    def connect(self, address: Address, callbacks: MonitorCallbacks, *, timeout_s: float) -> Dispatcher:
        """See `MonitorConnector.connect`; TCP, upgrade and handshake share `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        websocket = BoundedWebSocket(
            address,
            MONITOR_PATH,
            timeout_s=timeout_s,
            max_bytes=MAX_READ_BYTES,
            bearer=self._bearer,
            watcher=self._watcher,
            headers=self._headers,
            tls=self._tls,
        )
        dispatcher = Dispatcher(
            websocket,
            callbacks,
            response_timeout_s=self._response_timeout_s,
            max_failures_s=self._max_failures_s,
            health_period_s=self._health_period_s,
        )
        dispatcher.open(deadline)
        return dispatcher
