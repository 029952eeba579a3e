"""`vmscaler bucket KEY…`: which bucket a VM's key belongs to, and who holds it in a running fleet."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

import click

from app.cluster.ring import ANGLES, BucketSet
from app.config import Settings
from app.errors import ConfigurationError, InvalidInput, StoreUnavailable, UsageError
from app.ports.store import BucketName, LeaseReader
from app.protocols.printable import printable

MAX_KEY_BYTES = 1 << 20
"""A longer line on standard input is no key."""

NO_HOLDER = "-"
"""Shown where nobody holds the bucket."""


@click.command("bucket")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.option(
    "--total",
    type=click.IntRange(1, ANGLES),
    help="Number of buckets; else that of the configuration (16 by default).",
)
@click.pass_context
def bucket_command(context: click.Context, keys: Sequence[str], total: int | None) -> None:
    """Print each KEY (namespace/name) and its bucket, parted by a tab; with a running fleet also the holder.

    With - for a KEY, keys are read from standard input, one a line.
    """
    settings = _settings(context, is_needed=total is None)
    if settings is not None and total is None:
        total = settings.ownership.buckets
    ring = BucketSet(total or 1)
    holders = _holders(context, settings, ring.total)
    for place, key in _all_keys(keys):
        try:
            bucket = ring.owner(key)
        except InvalidInput as err:
            raise UsageError(f"{place} {err.problem}: {printable(ascii(key))}") from None
        holder = [] if holders is None else [holders.get(BucketName(bucket), NO_HOLDER)]
        click.echo("\t".join([key, bucket, *holder]))


def _settings(context: click.Context, *, is_needed: bool) -> Settings | None:
    # Imported here: reading settings is for the command itself, not for its help.
    from app.cli.config import settings_in_force

    try:
        return settings_in_force(context)
    except ConfigurationError:
        if is_needed:
            raise
        return None


def _holders(
    context: click.Context, settings: Settings | None, total: int
) -> Mapping[BucketName, str] | None:
    """Identities by held bucket; None unless a fleet with that many buckets runs and can be read quickly."""
    leases: LeaseReader | None = context.obj
    try:
        if leases is None:
            if settings is None or settings.ownership.buckets != total:
                return None
            from app.bootstrap.holders import build_quick_leases

            leases = build_quick_leases(settings)
        view = leases.view() if leases.stored_total() == total else None
    except (StoreUnavailable, ConfigurationError):
        return None
    if view is None or not view.live_agents:
        return None
    return {
        bucket: printable(row.holder.identity)
        for bucket, row in view.leases.items()
        if row.holder is not None
    }


def _all_keys(keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(where it stands, key), in order; standard input is read as it comes.

    An empty argument is a mistake (an unset variable); an empty line is the empty key, which has an owner as
    any other, so that there is a line of output for each one of input.
    """
    for number, key in enumerate(keys, 1):
        if key == "-":
            yield from _keys_from_stdin()
        elif key:
            yield f"key {number}", key
        else:
            raise UsageError(f"key {number} is empty")


def _keys_from_stdin() -> Iterator[tuple[str, str]]:
    stdin = sys.stdin.buffer
    number = 0
    while line := stdin.readline(MAX_KEY_BYTES + 2):
        number += 1
        place = f"standard input, line {number}"
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(line) > MAX_KEY_BYTES:
            raise UsageError(f"{place} is longer than {MAX_KEY_BYTES} bytes")
        # What is not UTF-8 is kept as it is in arguments, and refused by the ring.
        yield place, line.decode(errors="surrogateescape")
