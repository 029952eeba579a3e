"""Options of `vmscaler sim` about VMs that push their stats."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from app.config.own_sections import read_secret
from app.errors import UsageError
from app.fleet.pushing import PushOptions


def push_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--push` and what belongs to it, which it gets as `push`; None without."""

    @click.option("--push", "count", type=click.IntRange(1), help="So many VMs push, and can't be polled.")
    @click.option("--push-url", "urls", multiple=True, metavar="URL", help="A worker, as http://HOST:PORT.")
    @click.option("--push-secret-file", metavar="FILE", help="The fleet's secret, as in stats.secretFile.")
    @click.option(
        "--push-every", default=5.0, show_default=True, type=click.FloatRange(0.1, 3600), help="Seconds."
    )
    @functools.wraps(command)
    def with_push(
        *arguments: Any,
        count: int | None,
        urls: tuple[str, ...],
        push_secret_file: str | None,
        push_every: float,
        **options: Any,
    ) -> None:
        if count is None:
            if urls or push_secret_file is not None:
                raise UsageError("--push-url and --push-secret-file need --push")
            return command(*arguments, push=None, **options)
        if not urls or push_secret_file is None:
            raise UsageError("--push needs --push-url and --push-secret-file")
        secret = read_secret(push_secret_file, "--push-secret-file")
        push = PushOptions(count, urls, secret, push_every)
        return command(*arguments, push=push, **options)

    return with_push
