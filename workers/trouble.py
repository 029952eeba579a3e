"""What is wrong with the broker, said once per change."""

from __future__ import annotations

import logging

from app.protocols.printable import printable

MAX_REASON = 200
"""Characters of a reason."""


class Trouble:
    """One kind of trouble: a line when it begins or becomes another one, and a line when it is over.

    Args:
        begins: the sentence for the log while there is trouble.
        ends: the sentence once it is over.

    Attributes:
        reason: what is wrong now; empty while all is well.
    """

    def __init__(self, logger: logging.Logger, begins: str, ends: str) -> None:
        self._logger = logger
        self._begins = begins
        self._ends = ends
        self.reason = ""

    def has(self, err: BaseException) -> None:
        """Something went wrong."""
        reason = reason_of(err)
        if reason != self.reason:
            self.reason = reason
            self._logger.warning(self._begins, extra={"reason": reason})

    def is_over(self) -> None:
        """It works."""
        if self.reason:
            self.reason = ""
            self._logger.info(self._ends)


def reason_of(err: BaseException) -> str:
    """Kind and first line of an error, cut; libraries put their commands after it."""
    lines = str(err).rpartition("of pipeline caused error: ")[2].splitlines()
    text = printable(lines[0], MAX_REASON) if lines else ""
    return f"{type(err).__name__}: {text}" if text else type(err).__name__
