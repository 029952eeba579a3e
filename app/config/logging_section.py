"""The section about our logs (`docs/logging.md`); all of it is taken over by a running process on SIGHUP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from app.config.fields import RELOAD, Section, setting, wrong

Level = Literal["debug", "info", "warning", "error", "critical"]
"""How grave a line must be to be written."""


def _check_logger(name: str) -> str:
    parts = name.split(".")
    if len(name) > 100 or not all(part.replace("-", "_").isidentifier() and part.isascii() for part in parts):
        raise wrong("must be a logger's name, such as app.services.scaling")
    return name


LoggerName = Annotated[str, AfterValidator(_check_logger)]


class LoggingSettings(Section):
    """Logs of workers, beat and the built-in scheduler, on standard error (`docs/logging.md`)."""

    format: Literal["console", "json"] = setting(
        "console", "console: a line for people; json: an object a line", change=RELOAD
    )
    level: Level | None = setting(
        None, "least level that is written; none: as the command line says (`-l`, `-v`)", change=RELOAD
    )
    levels: Annotated[dict[LoggerName, Level], Field(max_length=100)] = setting(
        {}, 'levels of single loggers and those below them: {"app.services.scaling": "debug"}', change=RELOAD
    )
    lines_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] = setting(
        60,
        "most lines a minute with one message about one VM or peer; how many were left out is told",
        change=RELOAD,
    )
    lines_per_second: Annotated[int, Field(ge=1, le=1_000_000)] = setting(
        1000, "most lines a second of the whole process", change=RELOAD
    )
