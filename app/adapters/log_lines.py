"""Log lines for people: a constant sentence, then the facts of its `extra` as `name=value`.

Facts may come from peers: each is escaped and cut. Ours are logged by `app` and `workers` only.
"""

from __future__ import annotations

import logging

from app.protocols.printable import printable

_OURS = ("app.", "workers.")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

QUIET_LOGGERS = ("celery.worker.strategy", "celery.app.trace", "kombu", "urllib3", "geventwebsocket")
"""Loggers that say a line or two for each task; ours tell what came of it."""


class LogLines(logging.Formatter):
    """`2026-01-31 12:00:00,000 WARNING app.services.inventory: inventory not readable reason="..."`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The sentence and its facts."""
        line = super().formatMessage(record)
        if not record.name.startswith(_OURS):
            return line
        facts = [f"{name}={_value(value)}" for name, value in vars(record).items() if name not in _STANDARD]
        return " ".join([line, *facts])


def configure_logging(level: int) -> None:
    """Send the whole process' log to standard error; replaces what was configured before."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def _value(value: object) -> str:
    text = printable(str(value))
    return f'"{text}"' if " " in text or not text else text
