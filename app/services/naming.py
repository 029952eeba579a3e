"""Which VM an operator means: `namespace/name`, or the name alone where only one VM has it."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from app.errors import UsageError
from app.ports.vm import VmKey
from app.protocols.printable import printable

_MAX_NAMED = 8
"""Candidates that an error lists."""


def resolve_name(name: str, known: Collection[VmKey]) -> VmKey:
    """The one VM that is meant.

    Raises:
        UsageError: none or several; the text lists the candidates, or names that look alike.
    """
    shown = printable(name, 100)
    if "/" in name:
        if VmKey(name) in known:
            return VmKey(name)
        raise UsageError(f"unknown VM {shown}{_alike(name, known)}")
    having = sorted(key for key in known if key.partition("/")[2] == name)
    if len(having) == 1:
        return having[0]
    if having:
        raise UsageError(f"several VMs are called {shown}: {_listed(having)}; give the namespace too")
    raise UsageError(f"unknown VM {shown}{_alike(name, known)}")


def _alike(name: str, known: Collection[VmKey]) -> str:
    if not known:
        return ": no VM is known yet"
    by_spelling: dict[str, VmKey] = {}
    for key in sorted(known):
        by_spelling.setdefault(key.partition("/")[2].lower(), key)
        by_spelling[key.lower()] = key
    wanted = name[:300].lower()
    near = [by_spelling[spelling] for spelling in get_close_matches(wanted, by_spelling, n=6, cutoff=0.6)]
    last = wanted.rpartition("/")[2]
    near += [key for key in sorted(known) if last and last in key.lower()]
    unique = list(dict.fromkeys(near))[:3]
    if not unique:
        return "; `vmscaler vm list` shows all"
    return f"; near: {_listed(unique)}"


def _listed(keys: list[VmKey]) -> str:
    named = ", ".join(printable(key, 80) for key in keys[:_MAX_NAMED])
    return named if len(keys) <= _MAX_NAMED else f"{named} and {len(keys) - _MAX_NAMED} more"
