"""A journal file to which several workers append, a whole line in one write each."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping

from app.errors import ConfigurationError

logger = logging.getLogger(__name__)


class StatJournalFile:
    """One open file; what was written is in the kernel's hands, so a killed process loses nothing of it.

    Raises:
        ConfigurationError: it can't be opened.
    """

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            self._file = os.open(path, flags, 0o600)
        except (OSError, ValueError) as err:
            problem = f".stats.journal: can't be opened: {getattr(err, 'strerror', None) or err}"
            raise ConfigurationError([problem]) from None
        self._has_failed = False

    def write(self, facts: Mapping[str, object]) -> None:
        """See `StatJournal.write`; a full disk is logged once."""
        line = json.dumps(facts, separators=(",", ":")).encode() + b"\n"
        try:
            os.write(self._file, line)
        except OSError as err:
            if not self._has_failed:
                logger.error("stats journal not written", extra={"reason": err.strerror})
            self._has_failed = True
