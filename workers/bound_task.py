"""Tasks whose log lines name them: the task, and its bucket and VM, bound while the body runs."""

from __future__ import annotations

from typing import Any

from celery import Task

from app.ports.log_context import log_context


class BoundTask(Task):  # type: ignore[misc]
    """The base of all our tasks."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the body; what is bound is cleared at its end."""
        with log_context(task=self.name, task_id=str(self.request.id), **_whom(args, kwargs)):
            return self.run(*args, **kwargs)


def _whom(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str]:
    """The bucket is the first argument of the tasks of a bucket; scaling tasks name both."""
    named = {name: str(kwargs[name]) for name in ("vm", "bucket") if name in kwargs}
    return {"bucket": str(args[0])} | named if args else named
