"""Which records this version reads: N reads N-1, and leaves alone what a later one wrote.

See docs/upgrading.md: that is what lets workers be upgraded one by one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from app.core.snapshot import SNAPSHOT_VERSION
from app.errors import InvalidInput, NewerVersion

RECORD_VERSION = 1
"""Raised when an earlier version could not go on from what we write; a new field alone does not raise it."""


def is_of_newer_version(raw: bytes) -> bool:
    """Whether a later version of this program wrote the record."""
    try:
        parse_record(raw)
    except NewerVersion:
        return True
    except InvalidInput:
        pass
    return False


def parse_record(raw: bytes) -> Mapping[str, object]:
    """Read a record's JSON.

    Raises:
        NewerVersion: of a later version, itself or the core's snapshot in it.
        InvalidInput: not JSON, no object, or no version that we know.
    """
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError) as err:
        raise InvalidInput("record", "is not JSON") from err
    if not isinstance(record, dict):
        raise InvalidInput("record", "is no object")
    snapshot = record.get("snapshot")
    inner = snapshot.get("version") if isinstance(snapshot, dict) else None
    for where, version, ours in (
        ("record .v", record.get("v"), RECORD_VERSION),
        ("record .snapshot.version", inner, SNAPSHOT_VERSION),
    ):
        if type(version) is int and version > ours:
            raise NewerVersion(where, f"is {version}; this program reads {ours}")
    if type(record.get("v")) is not int or record["v"] != RECORD_VERSION:
        raise InvalidInput("record .v", f"is {record.get('v')!r}; this version reads {RECORD_VERSION}")
    return record
