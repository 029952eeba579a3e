"""`vmscaler guest …`: the command line of the in-VM daemon.

argparse and the standard library beside h11 and wsproto: the daemon must install in small guests.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Coroutine, Sequence

from app.guest.daemon import run_daemon
from app.guest.log_lines import log_to_stderr
from app.guest.options import (
    Guard,
    add_guard_options,
    add_run_options,
    listen_address,
    read_guard,
    read_run_options,
)
from app.guest.routes import Routes
from app.guest.server import Limits, Server

DEFAULT_METRICS = "127.0.0.1:9100"
"""node_exporter's port, on loopback: who wants it outside says so."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a guest command; the exit status: 0, 1 if it failed, 2 for wrong usage.

    Args:
        argv: what follows `guest`; the process' own arguments when None.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    log_to_stderr()
    try:
        if options.command == "metrics":
            host, port = options.listen
            guard = read_guard(options)
            return _finish(serve_metrics(host, port, guard), f"{host}:{port}: ")
        run_options = read_run_options(options)
    except (OSError, ValueError) as err:
        parser.error(str(err))
    return _finish(run_daemon(run_options), "")


def console() -> None:
    """The script `vmscaler` of the guest's own distribution, where nothing but `guest …` is there."""
    arguments = sys.argv[1:]
    if arguments[:1] != ["guest"]:
        print("only the daemon for VMs is installed here: vmscaler guest …", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    sys.exit(main(arguments[1:]))


def _finish(work: Coroutine[None, None, None], prefix: str) -> int:
    """Run it to its end; an address that can't be had is one line and status 1."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        return 0
    except (OSError, ValueError) as err:
        problem = str(err) if not prefix or not isinstance(err, OSError) else err.strerror or str(err)
        print(f"vmscaler guest: {prefix}{problem}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


async def serve_metrics(host: str, port: int, guard: Guard | None = None) -> None:
    """Serve `GET /metrics` until SIGTERM or SIGINT; the address is printed once it listens.

    Raises:
        OSError: the address can't be had.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    guard = guard or Guard()
    routes = Routes(guard.access, frozenset({"metrics"}), has_metrics=True)
    server = Server(routes.handle, limits=Limits(body_bytes=1_024, respond_s=5), tls=guard.tls)
    host, port = await server.start(host, port)
    shown = f"[{host}]" if ":" in host else host
    with contextlib.suppress(BrokenPipeError):
        secure = "" if guard.tls is None else "s"
        print(f"listening on http{secure}://{shown}:{port}/metrics", flush=True)  # noqa: T201
    await stop.wait()
    await server.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vmscaler guest", description="The daemon inside a VM.")
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    run = commands.add_parser(
        "run", help="serve vm-monitor, informant and metrics, on the ports that are named"
    )
    add_run_options(run)
    metrics = commands.add_parser(
        "metrics", help="serve load and memory of this machine as a metrics page, node_exporter's names"
    )
    metrics.add_argument(
        "--listen",
        type=listen_address,
        default=listen_address(DEFAULT_METRICS),
        metavar="HOST:PORT",
        help=f"where to listen (default {DEFAULT_METRICS}; port 0: a free one)",
    )
    add_guard_options(metrics)
    return parser
