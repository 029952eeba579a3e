"""Lease objects in memory, by the rules of an API server; each worker follows them by itself."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

from app.errors import PeerError, PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.lease_objects import LeaseNews, LeaseObject
from app.ports.store import BucketName


class LeaseServer:
    """What all workers have in common.

    Attributes:
        items: the objects that are there.
        log: (bucket, object, whether it is gone) for each change.
        is_away: nobody is answered.
    """

    def __init__(self) -> None:
        self.items: dict[BucketName, LeaseObject] = {}
        self.log: list[tuple[BucketName, LeaseObject, bool]] = []
        self.is_away = False
        self._version = 1000

    def put(self, bucket: BucketName, item: LeaseObject) -> LeaseObject:
        """Store it under a new version, as any client may."""
        self._version += 1
        new = copy.deepcopy(item)
        new["metadata"]["resourceVersion"] = str(self._version)
        self.items[bucket] = new
        self.log.append((bucket, new, False))
        return copy.deepcopy(new)

    def delete(self, bucket: BucketName) -> None:
        """Take it away, as an operator may."""
        self._version += 1
        gone = copy.deepcopy(self.items.pop(bucket))
        gone["metadata"]["resourceVersion"] = str(self._version)
        self.log.append((bucket, gone, True))


class MemoryLeaseObjects:
    """One worker's `LeaseObjects`.

    Attributes:
        is_deaf: its watch tells nothing more; `before_write` and `after_write` may raise, or let time pass.
        requests: writes and reads made.
    """

    def __init__(self, server: LeaseServer) -> None:
        self._server = server
        self._read = 0
        self._has_listed = False
        self.is_deaf = False
        self.requests: list[str] = []
        self.before_write: Callable[[BucketName], None] = lambda bucket: None
        self.after_write: Callable[[BucketName], None] = lambda bucket: None

    peer = "Kubernetes API server"
    problem = ""

    def news(self, *, timeout_s: float) -> LeaseNews:
        if not self._has_listed:
            self._ask()
            self._has_listed, self._read = True, len(self._server.log)
            return LeaseNews(
                True, tuple((key, copy.deepcopy(it), False) for key, it in self._server.items.items())
            )
        if self.is_deaf or self._server.is_away:
            return LeaseNews(False, ())
        found = tuple(copy.deepcopy(self._server.log[self._read :]))
        self._read = len(self._server.log)
        return LeaseNews(False, found)

    def write(
        self, wanted: Mapping[BucketName, LeaseObject], *, timeout_s: float
    ) -> Mapping[BucketName, LeaseObject | PeerError]:
        answers: dict[BucketName, LeaseObject | PeerError] = {}
        for bucket, item in wanted.items():
            try:
                answers[bucket] = self._write(bucket, item)
            except PeerError as err:
                answers[bucket] = err
        return answers

    def read(self, bucket: BucketName, *, timeout_s: float) -> LeaseObject | None:
        self.requests.append(f"read {bucket}")
        self._ask()
        return copy.deepcopy(self._server.items.get(bucket))

    def _write(self, bucket: BucketName, item: LeaseObject) -> LeaseObject:
        self.requests.append(f"write {bucket}")
        self.before_write(bucket)
        self._ask()
        here, named = self._server.items.get(bucket), item["metadata"].get("resourceVersion")
        if named and here is None:
            raise PeerRefused(self.peer, "not found", code=404)
        if (named or None) != (here and here["metadata"]["resourceVersion"]):
            raise PeerRefused(self.peer, "conflict", code=409)
        stored = self._server.put(bucket, item)
        self.after_write(bucket)
        return stored

    def _ask(self) -> None:
        if self._server.is_away:
            raise PeerUnreachable(self.peer, "no connection")


def lost_answer(bucket: BucketName) -> None:
    """The request was taken and nobody was told."""
    raise PeerTimedOut("Kubernetes API server", f"no answer about {bucket}")
