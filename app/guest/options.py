"""The options of `vmscaler guest run`, read and checked; nothing is opened but the token's file."""

from __future__ import annotations

import argparse
import math
import shlex
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.guest.access import Access, read_token
from app.guest.hooks import LIMIT_S, Hook
from app.guest.routes import ROLES
from app.guest.tls import server_tls
from app.guest.watchdog import CHECK_EVERY_S, LOCK_LIMIT_S
from app.protocols.access import AllowedAddresses, parse_ip, parse_network
from app.protocols.informant_set import SetSettings

PROTECTABLE = (*ROLES, "cpus", "load")
DEFAULT_PROTECTED = "informant,cpus"
DEFAULT_EXPORTER_PORT = 9100
"""node_exporter's."""
MAX_HOOK_S = 25.0
"""Below the time that the server gives an answer."""

_AGENTS = SetSettings()
TIMINGS = {
    "check": _AGENTS.check_after_s,
    "id": _AGENTS.id_limit_s,
    "resume": _AGENTS.resume_limit_s,
    "suspend": _AGENTS.suspend_limit_s,
    "watchdog": LOCK_LIMIT_S,
    "watchdog-every": CHECK_EVERY_S,
}
"""Times of the informant that `--timing` changes, with their defaults in seconds."""
MAX_TIMING_S = 3600.0

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Guard:
    """Who may call a server, and the TLS that it speaks; None: plain HTTP."""

    access: Access = field(default_factory=Access)
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the daemon is to serve, and how.

    Attributes:
        addresses: by role; roles with the same address share its port.
        callers: None: everyone may call.
        exporter_port: told to agents where we serve no metrics ourselves.
    """

    addresses: dict[str, Address]
    has_cpus: bool = False
    has_load: bool = False
    token: str | None = None
    protected: frozenset[str] = frozenset()
    callers: AllowedAddresses | None = None
    agent_addresses: AllowedAddresses = field(default_factory=AllowedAddresses)
    cgroup: str | None = None
    upscale_hook: Hook | None = None
    downscale_hook: Hook | None = None
    exporter_port: int = DEFAULT_EXPORTER_PORT
    agents: SetSettings = field(default_factory=SetSettings)
    watchdog_limit_s: float = LOCK_LIMIT_S
    watchdog_every_s: float = CHECK_EVERY_S
    tls: ssl.SSLContext | None = None


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `run`."""
    for role, text in (
        ("monitor", "vm-monitor websocket, at /monitor"),
        ("informant", "informant REST endpoints"),
        ("metrics", "metrics page, node_exporter's names"),
    ):
        parser.add_argument(
            f"--{role}", type=listen_address, metavar="HOST:PORT", help=f"serve the {text} (off unless named)"
        )
    parser.add_argument(
        "--cpus", action="store_true", help="serve /cpus on these ports, which sets CPUs online and offline"
    )
    parser.add_argument(
        "--load", action="store_true", help="serve /load on these ports, which puts a load on this guest"
    )
    add_guard_options(parser)
    parser.add_argument(
        "--token-for",
        default=DEFAULT_PROTECTED,
        metavar="ROLE,…",
        help=f"what needs the token, of {', '.join(PROTECTABLE)} (default {DEFAULT_PROTECTED})",
    )
    parser.add_argument(
        "--allow-agents",
        nargs="+",
        action="extend",
        metavar="CIDR|NAME",
        help="where agents may be called, beside the address that they register from",
    )
    parser.add_argument("--cgroup", metavar="NAME", help="the workload's cgroup; else the whole guest counts")
    parser.add_argument("--upscale-hook", metavar="CMD", help="run after each upscale")
    parser.add_argument("--downscale-hook", metavar="CMD", help="run before a downscale is allowed")
    parser.add_argument("--hook-seconds", type=float, default=LIMIT_S, metavar="S", help="for a hook to end")
    parser.add_argument(
        "--exporter-port",
        type=int,
        default=DEFAULT_EXPORTER_PORT,
        metavar="PORT",
        help="the metrics port that agents are told, without --metrics (default 9100)",
    )
    parser.add_argument(
        "--failed-checks",
        type=int,
        default=1,
        metavar="N",
        help="failed /id checks until an agent is dropped",
    )
    parser.add_argument(
        "--timing",
        nargs="+",
        action="extend",
        metavar="NAME=S",
        help=f"the informant's times, in seconds: {', '.join(f'{n}={s:g}' for n, s in TIMINGS.items())}",
    )


def add_guard_options(parser: argparse.ArgumentParser) -> None:
    """Declare what every serving command has: who may call, and TLS."""
    parser.add_argument("--token-file", metavar="FILE", help="a file with the bearer token for callers")
    parser.add_argument(
        "--allow", nargs="+", action="extend", metavar="CIDR", help="who may call; else everyone"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="speak TLS with this certificate, and …")
    parser.add_argument(
        "--tls-key", metavar="FILE", help="… this key; else it is in the certificate's file, too"
    )


def read_guard(options: argparse.Namespace) -> Guard:
    """Read what these options name.

    Raises:
        ValueError: they don't fit, or a file is not what it should be; the text is for the operator.
        OSError: the token's file can't be read.
    """
    callers = None if options.allow is None else _networks(options.allow)
    token = None if options.token_file is None else read_token(options.token_file)
    return Guard(Access(callers, token), _tls(options.tls_cert, options.tls_key))


def read_run_options(options: argparse.Namespace) -> RunOptions:
    """Check what belongs together.

    Raises:
        ValueError: they don't fit; the text is for the operator.
        OSError: the token, the certificate or its key can't be read.
    """
    addresses = {role: getattr(options, role) for role in ROLES if getattr(options, role) is not None}
    if not addresses:
        raise ValueError("nothing to serve: name --monitor, --informant or --metrics")
    for name in ("cpus", "load"):
        if getattr(options, name) and options.token_file is None:
            raise ValueError(f"--{name} needs --token-file")
    protected = frozenset(options.token_for.split(","))
    if not protected <= set(PROTECTABLE):
        raise ValueError(f"--token-for takes {', '.join(PROTECTABLE)}")
    if not 0 < options.hook_seconds <= MAX_HOOK_S:
        raise ValueError(f"--hook-seconds must be above 0 and at most {MAX_HOOK_S:g}")
    if not 1 <= options.exporter_port <= 65_535:
        raise ValueError("--exporter-port must be 1 to 65535")
    if options.failed_checks < 1:
        raise ValueError("--failed-checks must be at least 1")
    timings = _timings(options.timing or ())
    guard = read_guard(options)
    return RunOptions(
        addresses=addresses,
        has_cpus=options.cpus,
        has_load=options.load,
        token=guard.access.token,
        protected=protected | {"cpus", "load"},
        callers=guard.access.callers,
        agent_addresses=_hosts(options.allow_agents or ()),
        cgroup=options.cgroup,
        upscale_hook=_hook(options.upscale_hook, options.hook_seconds),
        downscale_hook=_hook(options.downscale_hook, options.hook_seconds),
        exporter_port=options.exporter_port,
        agents=SetSettings(
            check_after_s=timings["check"],
            id_limit_s=timings["id"],
            resume_limit_s=timings["resume"],
            suspend_limit_s=timings["suspend"],
            failed_checks=options.failed_checks,
        ),
        watchdog_limit_s=timings["watchdog"],
        watchdog_every_s=timings["watchdog-every"],
        tls=guard.tls,
    )


def listen_address(text: str) -> Address:
    """`HOST:PORT` or `[IPv6]:PORT` as host and port; port 0 stands for a free one.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def _timings(texts: Sequence[str]) -> dict[str, float]:
    """The defaults, with what was named instead."""
    timings = dict(TIMINGS)
    for text in texts:
        name, _, value = text.partition("=")
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if name not in timings or not 0 < seconds <= MAX_TIMING_S:
            known = ", ".join(TIMINGS)
            raise ValueError(f"--timing: {text!r} is not NAME=SECONDS with a name of {known}")
        timings[name] = seconds
    return timings


def _networks(texts: Sequence[str]) -> AllowedAddresses:
    return AllowedAddresses(tuple(parse_network(text) for text in texts))


def _hosts(texts: Sequence[str]) -> AllowedAddresses:
    """Networks, and host names as they will stand in the agents' addresses."""
    networks = tuple(parse_network(text) for text in texts if _is_network(text))
    return AllowedAddresses(networks, frozenset(text.lower() for text in texts if not _is_network(text)))


def _is_network(text: str) -> bool:
    return parse_ip(text.partition("/")[0]) is not None


def _hook(command: str | None, limit_s: float) -> Hook | None:
    if command is None:
        return None
    words = shlex.split(command)
    if not words:
        raise ValueError("a hook's command is empty")
    return Hook(tuple(words), limit_s)


def _tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    if certificate is None and key is None:
        return None
    if certificate is None:
        raise ValueError("--tls-key needs --tls-cert")
    return server_tls(certificate, key)
