"""What the forwarder does with a bucket's stats, and who says so: the leases, or a stateful set's ordinals.

Source: `spec/forwarder.md`, "The forwarder". A local processor accepts, a remote one sends to the owner
through the bucket's queue.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Protocol

from app.cluster.lease import parse_identity
from app.cluster.ring import parse_bucket_name
from app.errors import ConfigurationError, OwnershipLost
from app.ports.store import Holder, LeaseRow, LeaseView
from app.services.forwarder import Forwarder
from app.services.stat_fates import Fate, StatMessage

logger = logging.getLogger(__name__)

_ORDINAL = re.compile(r"-([0-9]{1,9})\Z", re.ASCII)


class LocalProcessor:
    """This process owns the bucket."""

    is_local = True

    def __init__(self, bucket: str, accept: Callable[..., object]) -> None:
        self._bucket = bucket
        self._accept = accept
        self._is_down = False

    def process(self, stat: StatMessage) -> Fate:
        """Take it in. Raises what `accept` raises, OwnershipLost after the end."""
        if self._is_down:
            raise OwnershipLost(self._bucket, "its processor has been shut down")
        return Fate.LATE if self._accept(stat) is Fate.LATE else Fate.ACCEPTED

    def shut_down(self) -> None:
        """Begin nothing more; what is being accepted may end. A second time does nothing."""
        self._is_down = True


class RemoteProcessor:
    """Another process owns the bucket."""

    is_local = False

    def __init__(self, bucket: str, send: Callable[..., object] | None) -> None:
        self._bucket = bucket
        self._send = send

    def process(self, stat: StatMessage) -> Fate:
        """Send it. Raises what sending raises, OwnershipLost without a way to send."""
        if self._send is None:
            raise OwnershipLost(self._bucket, "is another process', and there is no way to send to it")
        self._send(self._bucket, stat)
        return Fate.FORWARDED

    def shut_down(self) -> None:
        """End; a second time does nothing."""
        self._send = None


class LeaseViews(Protocol):
    """Where leases are seen: the ownership service."""

    def view(self) -> LeaseView | None:
        """All leases as of the last look; None before the first."""
        ...


class LeaseWatch:
    """Keeps a forwarder's processors those of the leases' holders; made by `lease_based_processor`."""

    def __init__(
        self, forwarder: Forwarder, accept: Callable[..., object], leases: LeaseViews | None
    ) -> None:
        self._forwarder = forwarder
        self._accept = accept
        self._leases = leases
        self._holders: dict[str, str] = {}
        self._complaints: set[tuple[str, str]] = set()

    def look(self) -> None:
        """See what there is to be seen; called again and again by whoever runs the forwarder."""
        view = None if self._leases is None else self._leases.view()
        if view is not None:
            self.see(view.leases.values())

    def see(self, rows: Iterable[LeaseRow]) -> None:
        """All leases there are; a bucket that is not among them is taken as deleted."""
        seen = set()
        for row in rows:
            seen.add(str(row.bucket))
            self.updated(str(row.bucket), row.holder)
        for bucket in self._holders.keys() - seen:
            self.deleted(bucket)

    def updated(self, bucket: str, holder: Holder | None) -> None:
        """A lease is new or has changed; the same holder as before changes nothing."""
        if parse_bucket_name(bucket) is None or bucket not in self._forwarder.buckets:
            self._ignore(bucket, "no bucket of this fleet")
        elif holder is None or not holder.identity:
            self._ignore(bucket, "it has no holder", level=logging.DEBUG)
        elif parse_identity(holder.identity) is None:
            self._ignore(bucket, "its holder's identity can't be read")
        elif self._holders.get(bucket) != holder.agent_id:
            self._complaints = {known for known in self._complaints if known[0] != bucket}
            self._holders[bucket] = holder.agent_id
            self._set(bucket, is_ours=holder == self._forwarder.holder)

    def deleted(self, bucket: str) -> None:
        """A lease is gone: so is its processor."""
        if self._holders.pop(bucket, None) is not None:
            self._forwarder.set_processor(bucket, None)

    def acquired(self, bucket: str) -> None:
        """This process has just got the lease; sooner known here than seen."""
        if self._forwarder.holder is not None:
            self._holders[bucket] = self._forwarder.holder.agent_id
        if not self._forwarder.is_bucket_owner(bucket):
            self._set(bucket, is_ours=True)

    def lost(self, bucket: str) -> None:
        """This process has just lost or given up the lease; who gets it is seen later."""
        if self._forwarder.is_bucket_owner(bucket):
            self._forwarder.set_processor(bucket, None)

    def _set(self, bucket: str, *, is_ours: bool) -> None:
        """The forwarder shuts the old processor down before there is a new one."""
        if is_ours:
            self._forwarder.set_processor(bucket, LocalProcessor(bucket, self._accept))
        else:
            self._forwarder.set_processor(bucket, RemoteProcessor(bucket, self._forwarder.send))

    def _ignore(self, bucket: str, why: str, *, level: int = logging.WARNING) -> None:
        """Said once for each bucket and reason; forgotten when a holder is there again."""
        if (bucket, why) not in self._complaints and len(self._complaints) < 4096:
            self._complaints.add((bucket, why))
            logger.log(level, "lease ignored", extra={"bucket": bucket[:100], "reason": why})


def lease_based_processor(
    forwarder: Forwarder, accept: Callable[..., object], *, leases: LeaseViews | None = None
) -> LeaseWatch:
    """Let the leases say who processes each bucket's stats.

    Args:
        forwarder: its `holder` tells our own leases from others'.
        accept: takes a stat in, one of a VM at a time. `Fate.LATE` says that a newer one was accepted before,
            an error that it is to be tried again, anything else that it is accepted.
        leases: where they are seen (`LeaseWatch.look`); without it the caller passes on what it sees.
    """
    watch = LeaseWatch(forwarder, accept, leases)
    watch.look()
    return watch


def statefulset_based_processor(
    forwarder: Forwarder,
    accept: Callable[..., object],
    *,
    name: str | None = None,
    ordinal: int | None = None,
    raise_fence: Callable[[str], None] | None = None,
) -> str:
    """Let the ordinal of this process say which bucket is its own; every other one is remote from the start.

    Args:
        accept: as for `lease_based_processor`.
        name: this process' name, whose digits after the last `-` are the ordinal; else that of the
            forwarder's holder.
        ordinal: the setting; it goes before the name.
        raise_fence: called once with our bucket, for there is no lease to come with a token.

    Returns:
        Our own bucket.

    Raises:
        ConfigurationError: there is no ordinal, or no bucket with it.
    """
    own = _ordinal(forwarder, name) if ordinal is None else ordinal
    total = len(forwarder.buckets)
    by_index = {parsed[0]: known for known in forwarder.buckets if (parsed := parse_bucket_name(known))}
    if own not in by_index:
        raise ConfigurationError(
            [f"ordinal: must be from 0 to {total - 1}, not {own}"], source="stateful set"
        )
    if raise_fence is not None:
        raise_fence(by_index[own])
    for bucket in forwarder.buckets:
        if bucket == by_index[own]:
            forwarder.set_processor(bucket, LocalProcessor(bucket, accept))
        else:
            forwarder.set_processor(bucket, RemoteProcessor(bucket, forwarder.send))
    return by_index[own]


def _ordinal(forwarder: Forwarder, name: str | None) -> int:
    if name is None and forwarder.holder is not None:
        name = forwarder.holder.identity.rpartition("_")[0]
    found = _ORDINAL.search(name or "")
    if found is None:
        problem = "ordinal: the process' name has no digits after a last -, and none is set"
        raise ConfigurationError([problem], source="stateful set")
    return int(found[1])
