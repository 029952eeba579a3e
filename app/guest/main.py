"""`vmscaler guest …`: the command line of the in-VM daemon.

argparse and the standard library beside h11 and wsproto: the daemon must install in small guests.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence

from app.guest.http_messages import Request, Response, Upgrade, text_response
from app.guest.metrics_page import CONTENT_TYPE, metrics_page
from app.guest.server import Limits, Server

DEFAULT_METRICS = "127.0.0.1:9100"
"""node_exporter's port, on loopback: who wants it outside says so."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a guest command; the exit status: 0, 1 if it failed, 2 for wrong usage.

    Args:
        argv: what follows `guest`; the process' own arguments when None.
    """
    options = _parser().parse_args(argv)
    host, port = options.listen
    try:
        asyncio.run(serve_metrics(host, port))
    except KeyboardInterrupt:
        return 0
    except OSError as err:
        print(f"vmscaler guest: {host}:{port}: {err.strerror or err}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


async def serve_metrics(host: str, port: int) -> None:
    """Serve `GET /metrics` until SIGTERM or SIGINT; the address is printed once it listens.

    Raises:
        OSError: the address can't be had.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = Server(answer_metrics, limits=Limits(body_bytes=1_024, respond_s=5))
    host, port = await server.start(host, port)
    shown = f"[{host}]" if ":" in host else host
    with contextlib.suppress(BrokenPipeError):
        print(f"listening on http://{shown}:{port}/metrics", flush=True)  # noqa: T201
    await stop.wait()
    await server.close()


async def answer_metrics(request: Request) -> Response | Upgrade:
    """`GET /metrics` and `GET /healthz`; 500 with the reason when /proc can't be read."""
    if request.path not in ("/metrics", "/healthz"):
        return text_response("not found", 404)
    if request.method not in ("GET", "HEAD"):
        return Response(405, b"GET only\n", headers=(("Allow", "GET, HEAD"),))
    if request.path == "/healthz":
        return text_response("ok")
    try:
        return Response(200, metrics_page(), CONTENT_TYPE)
    except (OSError, ValueError) as err:
        return text_response(f"/proc can't be read: {err}", 500)


def listen_address(text: str) -> tuple[str, int]:
    """`HOST:PORT` or `[IPv6]:PORT` as host and port; port 0 stands for a free one.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vmscaler guest", description="The daemon inside a VM.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
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
    return parser
