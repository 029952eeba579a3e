"""Log lines: a constant sentence, then the facts of its `extra`; for people, or as a JSON object a line.

Facts may come from peers: each is escaped and cut. Ours are logged by `app` and `workers` only; a library's
record has its sentence alone, for what it passes along may be anything. Passwords in addresses and bearer
tokens are blotted out of every line, wherever they came from.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from app.adapters.log_rates import LogRates
from app.config.logging_section import LoggingSettings
from app.ports.log_context import log_facts
from app.protocols.printable import printable

_OURS = ("app.", "workers.")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

QUIET_LOGGERS = ("celery.worker.strategy", "celery.app.trace", "kombu", "urllib3", "geventwebsocket")
"""Loggers that say a line or two for each task; ours tell what came of it."""

MAX_LINE = 16_384
"""Characters of a line, a trace included; the middle of a longer one is left out."""

_SECRETS = re.compile(r"(://[^\s:@/]*):[^\s@/]+@|(?i:\b(bearer|basic) )[A-Za-z0-9._~+/=-]{6,}")
"""The password in an address, the token in a header."""

_KEYS = ("time", "level", "logger", "event", "pid", "error")
"""The keys of every JSON line; a fact of such a name gets a `_` behind it."""


class LogLines(logging.Formatter):
    """`2026-01-31 12:00:00,000 WARNING app.services.inventory: inventory not readable reason="..."`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the trace where there is one."""
        return _bounded(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The sentence and its facts."""
        line = super().formatMessage(record)
        return " ".join([line, *(f"{name}={_quoted(value)}" for name, value in _facts(record))])


class JsonLines(logging.Formatter):
    """`{"time": "2026-01-31T12:00:00.000Z", "level": "warning", "logger": …, "event": …, facts …}`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a trace is its `error`."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _without_secrets(printable(record.getMessage(), MAX_LINE // 4)),
            "pid": record.process,
        }
        for name, value in _facts(record):
            is_number = isinstance(value, bool | int | float) or value is None
            shown = value if is_number else _without_secrets(printable(str(value)))
            line[f"{name}_" if name in _KEYS else name] = shown
        if record.exc_info:
            line["error"] = _bounded(self.formatException(record.exc_info))
        return json.dumps(line)


class BoundedHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes what the rates let through to standard error.

    Attributes:
        levelled: loggers whose level was set beside it; they get their own back when it is replaced.
    """

    def __init__(self, rates: LogRates) -> None:
        super().__init__()
        self._rates = rates
        self.levelled: tuple[str, ...] = ()

    def emit(self, record: logging.LogRecord) -> None:
        """Called with the handler's lock held."""
        for line in self._rates.let_through(record):
            super().emit(line)

    def close(self) -> None:
        """The process ends, or logs otherwise from now on: what was left out is told."""
        with self.lock:  # type: ignore[union-attr]
            for line in self._rates.remaining():
                super().emit(line)
        super().close()


def configure_logging(
    level: int, settings: LoggingSettings | None = None, quiet: Mapping[str, int] | None = None
) -> None:
    """Send the whole process' log to standard error; replaces what was configured before.

    Args:
        level: where `settings` names none.
        settings: the section of the configuration; None: lines for people, of a command.
        quiet: least levels of loggers that say too much; `settings.levels` goes before it.
    """
    settings = settings or LoggingSettings()
    if settings.level is not None:
        level = logging.getLevelNamesMapping()[settings.level.upper()]
    handler = BoundedHandler(LogRates(settings.lines_per_minute, settings.lines_per_second))
    handler.setFormatter(JsonLines() if settings.format == "json" else LogLines())
    root = logging.getLogger()
    earlier, root.handlers[:] = root.handlers[:], [handler]
    root.setLevel(level)
    for old in earlier:
        if isinstance(old, BoundedHandler):
            for name in old.levelled:
                logging.getLogger(name).setLevel(logging.NOTSET)
            old.close()
    levels = {name: max(level, logging.WARNING) for name in QUIET_LOGGERS} | dict(quiet or {})
    levels |= {name: logging.getLevelNamesMapping()[text.upper()] for name, text in settings.levels.items()}
    for name, least in levels.items():
        logging.getLogger(name).setLevel(least)
    handler.levelled = tuple(levels)


def _facts(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """Those of one of our records, then those of the task or job that it belongs to."""
    own = vars(record)
    if record.name.startswith(_OURS):
        yield from ((name, value) for name, value in own.items() if name not in _STANDARD)
    yield from ((name, value) for name, value in log_facts().items() if name not in own)


def _quoted(value: object) -> str:
    text = printable(str(value))
    return f'"{text}"' if " " in text or not text else text


def _without_secrets(text: str) -> str:
    return _SECRETS.sub(lambda found: f"{found[1]}:***@" if found[1] else f"{found[2]} ***", text)


def _bounded(text: str) -> str:
    text = _without_secrets(text)
    if len(text) <= MAX_LINE:
        return text
    return (
        f"{text[: MAX_LINE // 2]}\n… {len(text) - MAX_LINE} characters left out …\n{text[-MAX_LINE // 2 :]}"
    )
