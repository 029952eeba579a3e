"""`vmscaler monitor ping|upscale|downscale`: ask a VM's vm-monitor by hand (`spec/monitor-protocol.md`).

A monitor has one agent: it ends the connection of the one before, which dials again by itself.
"""

from __future__ import annotations

import threading

import click

from app.adapters.client_tls import ClientTls
from app.adapters.clock import SystemClock
from app.adapters.monitor_ws import MONITOR_PATH, MonitorDialer
from app.cli.amounts import CpuType, MemoryType, PeerUrl, UrlType
from app.cli.by_hand import Answer, Asking, asking_options
from app.ports.peers import MonitorCallbacks
from app.protocols.monitor_agent import MonitorResult, Question
from app.protocols.monitor_wire import DownscaleRequest, HealthCheck, UpscaleNotification

DEFAULT_PORT = 10301
DEFAULT_CPU = "1"
"""Monitors decide by memory alone."""

_url = click.argument("url", type=UrlType("ws", DEFAULT_PORT, MONITOR_PATH))
_cpu = click.option(
    "--cpu", "milli_cpu", type=CpuType(), default=DEFAULT_CPU, show_default=True, help="CPUs: 2, 1.5, 250m."
)
_memory = click.option("--memory", type=MemoryType(), required=True, help="The whole size: 4Gi, bytes.")


@click.group("monitor")
def monitor_group() -> None:
    """Ask the vm-monitor in a VM, at ws://HOST:10301/monitor, or wss://.

    It drops the connection of its agent for this one; the agent dials again.
    Exit status: 0 yes, 1 no, 2 wrong usage, 3 not reached, 4 no answer in time.
    """


@monitor_group.command("ping")
@_url
@asking_options
def ping_command(url: PeerUrl, asking: Asking) -> int:
    """Send the monitor at URL a health check; changes nothing."""
    return _ask("ping", url, HealthCheck(), asking)


@monitor_group.command("upscale")
@_url
@_cpu
@_memory
@asking_options
def upscale_command(url: PeerUrl, milli_cpu: int, memory: int, asking: Asking) -> int:
    """Tell the monitor at URL that the VM has that size now.

    It raises its own limits by it; it changes no size.
    """
    return _ask("upscale", url, UpscaleNotification(milli_cpu / 1000, memory), asking)


@monitor_group.command("downscale")
@_url
@_cpu
@_memory
@asking_options
def downscale_command(url: PeerUrl, milli_cpu: int, memory: int, asking: Asking) -> int:
    """Ask the monitor at URL whether the VM may have that size.

    A monitor that allows it lowers its own limits by it; it changes no size.
    """
    return _ask("downscale", url, DownscaleRequest(milli_cpu / 1000, memory), asking)


def _ask(command: str, url: PeerUrl, question: Question, asking: Asking) -> int:
    tls = asking.tls(url)
    return asking.run(command, str(url), lambda: _converse(url, question, asking, tls))


def _converse(url: PeerUrl, question: Question, asking: Asking, tls: ClientTls | None) -> Answer:
    """One connection for one question. Raises PeerError."""
    clock = SystemClock()
    deadline = clock.monotonic() + asking.timeout_s
    has_asked = threading.Event()
    callbacks = MonitorCallbacks(
        on_upscale_request=has_asked.set,
        on_success=lambda: None,
        on_exit=lambda reason: None,
    )
    dialer = MonitorDialer(asking.timeout_s, bearer=asking.token, watcher=asking.trace, tls=tls)
    session = dialer.connect(url.address, callbacks, timeout_s=asking.timeout_s)
    session.serve_in_background()
    try:
        result = session.call(question, timeout_s=deadline - clock.monotonic())
    finally:
        session.close()
    return _answer(result, has_asked.is_set())


def _answer(result: MonitorResult, has_asked: bool) -> Answer:
    """`asked_for_memory`: whether the guest did so while we were connected."""
    facts = {"asked_for_memory": has_asked}
    if result.downscale is not None:
        return Answer(result.downscale.ok, result.downscale.status, facts)
    text = "it answers" if result.confirmation is None else "it has taken note"
    return Answer(True, text, facts)
