"""Flower's settings, from the section `flower` of the configuration (`docs/flower.md`).

Flower takes its options from the environment and its command line too, and those go before. What it is to
do in the end is judged after it has read them all: no page beyond loopback without a login, no API without
one, no password where everyone on the machine can read it.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping, Sequence
from typing import Any

from celery import Celery
from kombu.entity import Queue

from app.cluster.ring import BucketSet
from app.config.flower_section import FlowerSettings, is_loopback
from app.errors import ConfigurationError
from workers.ending import refuse

TASK_COLUMNS = "name,kwargs,state,received,runtime,worker"
"""`kwargs` is what a scaling task says of itself: VM, from, to and why."""

_OPEN_API = "FLOWER_UNAUTHENTICATED_API"
_SECRETS = ("basic_auth", "oauth2_key", "oauth2_secret", "cookie_secret")
"""Options that the list of processes would show to everyone on the machine."""


def is_flower(argv: Sequence[str]) -> bool:
    """Whether this process is `celery … flower`."""
    return "flower" in argv[1:]


def configure_flower(
    celery: Celery, settings: FlowerSettings, buckets: int, environ: MutableMapping[str, str]
) -> None:
    """Set what an operator has not set, and refuse what must not be.

    Args:
        environ: of this process; Flower reads it after this.

    Raises:
        ConfigurationError: the file of logins can't be used, or the API is to be open to everyone.
    """
    if environ.get(_OPEN_API, "").strip().lower() not in ("", "0", "n", "no", "f", "false", "off"):
        raise ConfigurationError([f"{_OPEN_API}: must not be set; .flower.authFile opens the API to users"])
    for name, value in _options(settings).items():
        environ.setdefault(f"FLOWER_{name}", value)
    # Imported here: workers and beat share this module, and need none of it.
    from flower.options import default_options

    known: Any = default_options
    # Not through the environment, where a comma would end a password.
    known.basic_auth = settings.logins()
    known.add_parse_callback(lambda: _end_where_open(known, sys.argv))
    names = [celery.conf.task_default_queue, *BucketSet(buckets).names]
    celery.conf.task_queues = [Queue(name) for name in names]  # type: ignore[no-untyped-call]


def flaw_of(options: Any, argv: Sequence[str]) -> str | None:
    """Why Flower must not run with what it has read; None where it may.

    Args:
        options: as Flower has them after reading environment, command line and its own file.
        argv: the process' arguments.
    """
    named = {word.lstrip("-").partition("=")[0].replace("-", "_") for word in argv if word.startswith("-")}
    shown = sorted(named.intersection(_SECRETS))
    if shown:
        return f"--{shown[0]}: everyone on this machine can read a command line; use .flower.authFile"
    if options.basic_auth or options.auth:
        return None
    if options.unix_socket:
        return f"{options.unix_socket}: every user of this machine may connect; set .flower.authFile"
    if not is_loopback(options.address):
        place = options.address or "all addresses"
        return f"{place}: others can reach this; set .flower.authFile, or listen on 127.0.0.1"
    return None


def _options(settings: FlowerSettings) -> dict[str, str]:
    options = {
        "ADDRESS": settings.host,
        "PORT": str(settings.port),
        "TASKS_COLUMNS": TASK_COLUMNS,
        "READ_ONLY": str(settings.read_only).lower(),
        "MAX_TASKS": str(settings.max_tasks),
        # Our workers send events without being told to.
        "ENABLE_EVENTS": "false",
    }
    if settings.tls_cert_file is not None and settings.tls_key_file is not None:
        options |= {"CERTFILE": settings.tls_cert_file, "KEYFILE": settings.tls_key_file}
    return options


def _end_where_open(options: Any, argv: Sequence[str]) -> None:
    problem = flaw_of(options, argv)
    if problem is not None:
        refuse(f"vmscaler: flower: {problem}")
