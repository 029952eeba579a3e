"""Where this user's files go: the directories of the XDG base directory specification."""

from __future__ import annotations

import os
from pathlib import Path

NAME = "vmscaler"


def state_directory() -> Path:
    """What must outlive a restart: `$XDG_STATE_HOME/vmscaler`, else `~/.local/state/vmscaler`."""
    return _directory("XDG_STATE_HOME", ".local/state")


def cache_directory() -> Path:
    """What may be deleted at any time: `$XDG_CACHE_HOME/vmscaler`, else `~/.cache/vmscaler`."""
    return _directory("XDG_CACHE_HOME", ".cache")


def _directory(variable: str, otherwise: str) -> Path:
    """A relative path in the variable is ignored, as the specification wants."""
    given = os.environ.get(variable, "")
    return (Path(given) if os.path.isabs(given) else Path.home() / otherwise) / NAME
