"""The configuration read anew by a running process: taken over where that is safe, named where it is not."""

from __future__ import annotations

import logging
from collections.abc import Callable

from app.config import Settings
from app.config.reloading import take_over
from app.errors import ConfigurationError

logger = logging.getLogger(__name__)

MAX_NAMED = 50
"""Settings that are named in the log one by one, each time."""


class Reloading:
    """One process' configuration.

    Args:
        settings: in force at the start.
        load: reads the file and the environment anew; raises ConfigurationError.
        apply: brings what was taken over to those who use it; must not fail half-way.

    Attributes:
        settings: in force now.
    """

    def __init__(
        self, settings: Settings, load: Callable[[], Settings], apply: Callable[[Settings], None]
    ) -> None:
        self.settings = settings
        self._load = load
        self._apply = apply

    def reload(self) -> None:
        """Read it anew; one with a mistake changes nothing. The log says what came of it."""
        try:
            newer = self._load()
        except ConfigurationError as err:
            facts = {"source": err.source, "problem": err.problems[0], "problems": len(err.problems)}
            logger.error("configuration not reloaded: the values in force stay", extra=facts)
            return
        reloaded = take_over(self.settings, newer)
        self.settings = reloaded.settings
        if reloaded.taken:
            self._apply(reloaded.settings)
        for setting in reloaded.taken[:MAX_NAMED]:
            logger.info("setting taken over", extra={"setting": setting})
        for setting in reloaded.left[:MAX_NAMED]:
            logger.warning("a changed setting needs a restart", extra={"setting": setting})
        counts = {"taken_over": len(reloaded.taken), "need_restart": len(reloaded.left)}
        logger.info("configuration reloaded", extra=counts)
