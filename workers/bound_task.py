"""Tasks whose log lines and spans name them: the task, its bucket and VM, bound while the body runs."""

from __future__ import annotations

from typing import Any

from celery import Task

from app.ports.log_context import log_context
from app.ports.tracing import HEADER, span, trace_id

MAX_HEADER = 100
"""Characters of a carried span: 55, and room for a later version."""


class BoundTask(Task):  # type: ignore[misc]
    """The base of all our tasks; each is a span of the trace of whoever sent it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the body; what is bound is cleared at its end."""
        whom = _whom(args, kwargs)
        with span(self.name, parent=self._parent(), **whom):
            trace = {"trace": text} if (text := trace_id()) else {}
            with log_context(task=self.name, task_id=str(self.request.id), **trace, **whom):
                return self.run(*args, **kwargs)

    def _parent(self) -> str:
        """The span that sent it, which is text of a peer; "" where none did."""
        text = (self.request.headers or {}).get(HEADER, "")
        return text if isinstance(text, str) and len(text) <= MAX_HEADER else ""


def _whom(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str]:
    """The bucket is the first argument of the tasks of a bucket; scaling tasks name both."""
    named: dict[str, str] = {name: str(kwargs[name]) for name in ("vm", "bucket") if name in kwargs}
    return {"bucket": str(args[0]), **named} if args else named
