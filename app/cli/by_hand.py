"""What the commands that ask a live peer by hand have in common: options, what is shown, exit statuses.

0: the peer said yes. 1: it said no, or something that can't be used. 3: it was not reached, nothing was
sent. 4: no answer in time, or the connection was lost meanwhile: it may have taken effect.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import click

from app.adapters.clock import SystemClock
from app.cli.amounts import SECURE, PeerUrl, SecondsType
from app.cli.shapes import show_json
from app.config.own_sections import read_secret
from app.errors import PeerError, PeerRefused, PeerUnreachable, UsageError
from app.protocols.printable import printable

if TYPE_CHECKING:
    from app.adapters.client_tls import ClientTls

DEFAULT_TIMEOUT_S = 10.0
"""For everything together: connecting, the handshake, the answer."""

SHOWN_CHARACTERS = 2_000
"""Of one frame or body."""

TEXT_CHARACTERS = 300
"""Of what is said at the end: a peer's text, and whose it is."""


class Outcome(Enum):
    """How it ended: the word in JSON, and the exit status."""

    YES = ("yes", 0)
    NO = ("no", 1)
    UNREACHABLE = ("unreachable", 3)
    TIMED_OUT = ("timed-out", 4)

    @property
    def word(self) -> str:
        """For `--json`."""
        return self.value[0]

    @property
    def status(self) -> int:
        """Of the process."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the peer said.

    Attributes:
        text: for people; what the peer has put into it is escaped when it is shown.
        facts: more of it, for `--json`.
    """

    is_yes: bool
    text: str
    facts: Mapping[str, object]


class Trace:
    """Shows what is said on standard error, a line each: `→` from here, `←` from the peer; off: nothing."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on

    def sent(self, data: bytes, before: str = "") -> None:
        """Show what goes to the peer, after a method and path."""
        self._show("→", before, data)

    def received(self, data: bytes, before: str = "") -> None:
        """Show what has come, after a status."""
        self._show("←", before, data)

    def _show(self, arrow: str, before: str, data: bytes) -> None:
        if self._is_on:
            # A character has four bytes at most; what is cut off here would not be shown anyway.
            text = data[: 4 * (SHOWN_CHARACTERS + 1)].decode("utf-8", "replace").strip()
            line = " ".join(part for part in (arrow, before, text) if part)
            click.echo(printable(line, SHOWN_CHARACTERS), err=True)


@dataclass(frozen=True, slots=True)
class Asking:
    """How a peer is asked.

    Attributes:
        timeout_s: for everything together.
        token: what lets us in; None: nothing is needed.
        trust: a file with the authorities whose certificates we believe, and the name that these must be made
            out to; None each: those of the system, and the host that is dialled.
    """

    timeout_s: float
    token: str | None
    is_json: bool
    trace: Trace
    trust: tuple[str | None, str | None] = (None, None)

    def tls(self, url: PeerUrl) -> ClientTls | None:
        """Whom we believe there; None: TLS is not spoken.

        Raises:
            ConfigurationError: the authorities' file can't be read.
            UsageError: there is no TLS for which it could be needed.
        """
        if not url.is_secure:
            if self.trust != (None, None):
                raise UsageError(f"--ca and --server-name are for {SECURE[url.scheme]}://")
            return None
        # `ssl` must not be loaded before the standard library has been made cooperative, where it is.
        from app.adapters.client_tls import client_tls

        return client_tls(*self.trust, where="--ca")

    def run(self, command: str, peer: str, ask: Callable[[], Answer]) -> int:
        """Ask, show what came of it; gives the exit status."""
        clock = SystemClock()
        began = clock.monotonic()
        problem: PeerError | None = None
        try:
            answer = ask()
            outcome = Outcome.YES if answer.is_yes else Outcome.NO
        except PeerError as err:
            problem, answer, outcome = err, Answer(False, str(err), {}), outcome_of(err)
        took_ms = round((clock.monotonic() - began) * 1000)
        text = printable(answer.text, TEXT_CHARACTERS)
        if self.is_json:
            told = {"command": command, "peer": peer, "outcome": outcome.word, "text": text}
            show_json({**told, "took_ms": took_ms, **answer.facts})
        elif problem is None:
            click.echo(f"{outcome.word}: {text}")
        else:
            click.echo(f"vmscaler: {text}", err=True)
        return outcome.status


def outcome_of(problem: PeerError) -> Outcome:
    """What an error says about whether it may have taken effect."""
    match problem:
        case PeerRefused():
            return Outcome.NO
        case PeerUnreachable():
            return Outcome.UNREACHABLE
        case _:
            return Outcome.TIMED_OUT


def asking_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command `--timeout`, `--token-file`, `--ca` and more, which it gets as `asking`."""

    @click.option(
        "--timeout",
        "timeout_s",
        type=SecondsType(),
        default=f"{DEFAULT_TIMEOUT_S:g}",
        show_default=True,
        help="For everything together: 2.5, 90s, 10m.",
    )
    @click.option("--token-file", metavar="FILE", help="A file with the bearer token that the peer asks for.")
    @click.option("--ca", metavar="FILE", help="Believe the authorities in this PEM file, not the system's.")
    @click.option("--server-name", metavar="NAME", help="The peer's certificate must be made out to it.")
    @click.option("--json", "is_json", is_flag=True, help="Print JSON.")
    @click.option("-v", "--verbose", is_flag=True, help="Show what is said, on standard error.")
    @functools.wraps(command)
    def with_asking(
        *arguments: Any,
        timeout_s: float,
        token_file: str | None,
        ca: str | None,
        server_name: str | None,
        is_json: bool,
        verbose: bool,
        **options: Any,
    ) -> int:
        is_verbose = verbose or bool(click.get_current_context().find_root().params.get("verbose"))
        asking = Asking(
            timeout_s, _read_token(token_file), is_json, Trace(is_on=is_verbose), (ca, server_name)
        )
        return command(*arguments, asking=asking, **options)

    return with_asking


def _read_token(path: str | None) -> str | None:
    """The token in a file.

    Raises:
        ConfigurationError: the file can't be read, or is empty or too long.
        UsageError: it holds more than a header may.
    """
    if path is None:
        return None
    token = read_secret(path, "--token-file")
    if not (token.isascii() and token.isprintable()):
        raise UsageError("--token-file: one line with a token of plain characters was expected")
    return token
