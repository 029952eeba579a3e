"""The daemon's log: a line on standard error for each record, its facts behind it; the journal adds times."""

from __future__ import annotations

import logging

from app.protocols.printable import printable

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes that every record has; the others are facts."""


class FactsFormatter(logging.Formatter):
    """`INFO an agent is registered agent=… address=…`; what peers wrote is made safe to show."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the trace where there is one."""
        facts = [
            f"{name}={printable(str(value))}" for name, value in vars(record).items() if name not in _STANDARD
        ]
        line = " ".join([record.levelname, printable(record.getMessage()), *facts])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def log_to_stderr() -> None:
    """Send every record from INFO on to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(FactsFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
