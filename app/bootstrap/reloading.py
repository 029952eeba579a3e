"""A process' configuration, read anew on SIGHUP."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from app.config import Settings, load_settings
from app.services.reloading import Reloading


def build_reloading(settings: Settings, path: str | None, apply: Callable[[Settings], None]) -> Reloading:
    """Reads the file at `path` anew, or the one that the environment names; `apply` as in `Reloading`."""
    return Reloading(settings, partial(load_settings, path, os.environ), apply)
