"""What every log line of a task or job has: which task, which bucket, which VM.

Bound for a stretch of work and cleared at its end, whatever that is; each thread and each greenlet has its
own (a greenlet begins with none). Whoever writes the lines reads it; services and adapters need not pass a VM
along only to be able to name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

_NOTHING: Mapping[str, str] = MappingProxyType({})
_context: ContextVar[Mapping[str, str]] = ContextVar("log_context", default=_NOTHING)


def log_facts() -> Mapping[str, str]:
    """What is bound now; never changed in place."""
    return _context.get()


@contextmanager
def log_context(**facts: str) -> Iterator[None]:
    """Bind facts, beside those that are bound already, until the block ends."""
    token = _context.set({**_context.get(), **facts})
    try:
        yield
    finally:
        _context.reset(token)
