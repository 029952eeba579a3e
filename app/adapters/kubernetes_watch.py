"""A collection of Kubernetes objects, listed in pages and then followed by one watch that never gives up.

A watch is ended by the server after `WATCH_S` and begun again where it was; bookmarks keep that place fresh
on a quiet fleet. One that has not ended `WATCH_MARGIN_S` later is dead, whatever its connection looks like.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from queue import Full, Queue
from typing import Any

from app.adapters.kubernetes_api import TOO_LARGE, ApiServer, JsonObject, is_gone
from app.errors import PeerError, PeerRefused, PeerTimedOut
from app.protocols.kubernetes_rights import needed, right_on

logger = logging.getLogger(__name__)

PAGE = 500
"""Objects in a page of a list."""

MAX_OBJECTS = 50_000
"""In one list; more than that is no fleet of one control plane."""

LIST_TIMEOUT_S = 30.0
"""Of one page."""

WATCH_S = 40
WATCH_MARGIN_S = 10.0
"""Together below a minute: that is how soon a watch that has gone silent is replaced."""

MIN_PAUSE_S, MAX_PAUSE_S = 0.2, 5.0
"""Between two tries to begin a watch, growing, with jitter."""

SHORTEST_S = 1.0
"""A watch that the server ends sooner, and without news, is begun again as slowly as one that fails."""

MAX_EVENTS = 10_000
"""Not yet taken; the watch waits above it."""


class Kind(StrEnum):
    """What a watch tells."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    EXPIRED = "EXPIRED"
    """Events were missed: list again; nothing follows."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One thing that a watch tells; `item` is empty for EXPIRED."""

    kind: Kind
    item: JsonObject


class ObjectWatch:
    """One collection.

    Args:
        path: of the collection, such as `/apis/vm.neon.tech/v1/virtualmachines`.
        selectors: `labelSelector` and `fieldSelector`, where there are any.
        events: where events go.

    Attributes:
        problem: the error of the last try to watch, None while it runs.
        failures: tries in a row that have failed; a watch that is cut now and then has one at most.
    """

    def __init__(
        self, api: ApiServer, path: str, selectors: Mapping[str, str], events: Queue[WatchEvent]
    ) -> None:
        self._api = api
        self._path = path
        self._selectors = dict(selectors)
        self._events = events
        self._version = ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.problem: PeerError | None = None
        self.failures = 0

    def read_all(self, *, timeout_s: float = LIST_TIMEOUT_S) -> list[JsonObject]:
        """The whole collection; what is watched afterwards goes on from it.

        Args:
            timeout_s: of one page.

        Raises:
            PeerError: nothing may be concluded about the collection.
        """
        for _ in range(3):
            try:
                return self._list_pages(timeout_s)
            except PeerRefused as err:
                if not is_gone(err):
                    raise self._name_right(err) from err
        raise PeerTimedOut(self._api.peer, "a list was too slow for its pages three times")

    def follow(self) -> None:
        """Watch from where the last list ended, until closed or expired."""
        self._thread = threading.Thread(target=self._run, name=f"watch {self._path}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the watch; it ends by itself when its request does."""
        self._stop.set()

    def _list_pages(self, timeout_s: float) -> list[JsonObject]:
        found: list[JsonObject] = []
        query = {**self._selectors, "limit": str(PAGE)}
        while True:
            page = self._read_page(query, timeout_s)
            items, metadata = page.get("items"), page.get("metadata")
            if not isinstance(items, list) or not isinstance(metadata, dict):
                raise PeerRefused(self._api.peer, f"{self._path}: answered no list")
            found += [item for item in items if isinstance(item, dict)]
            if len(found) > MAX_OBJECTS:
                raise PeerRefused(self._api.peer, f"{self._path}: over {MAX_OBJECTS} objects")
            self._version = str(metadata.get("resourceVersion") or "")
            token = metadata.get("continue")
            if not token:
                return found
            query["continue"] = str(token)

    def _read_page(self, query: dict[str, str], timeout_s: float) -> JsonObject:
        """One page; of objects that are too large for one, fewer from here on: they keep no others away."""
        while True:
            try:
                return self._api.call("GET", self._path, query=query, timeout_s=timeout_s)
            except PeerRefused as err:
                limit = int(query["limit"]) // 4
                if err.code != TOO_LARGE or limit == 0:
                    raise
                query["limit"] = str(limit)

    def _run(self) -> None:
        pause = MIN_PAUSE_S
        while not self._stop.is_set():
            before, begun = self._version, time.monotonic()
            try:
                self._watch_once()
                is_served = self._version != before or time.monotonic() - begun >= SHORTEST_S
                pause = MIN_PAUSE_S if is_served else min(pause * 2, MAX_PAUSE_S)
            except PeerError as err:
                if is_gone(err):
                    self._put(WatchEvent(Kind.EXPIRED, {}))
                    return
                self.problem = self._name_right(err)
                self.failures += 1
                pause = MIN_PAUSE_S if self._version != before else min(pause * 2, MAX_PAUSE_S)
            except Exception as err:
                # Were this thread to end, the collection would stand still and nobody would be told.
                logger.exception("watch failed", extra={"path": self._path})
                self.problem = PeerTimedOut(self._api.peer, f"the watch failed: {type(err).__name__}")
                self.failures += 1
                pause = min(pause * 2, MAX_PAUSE_S)
            self._stop.wait(pause * random.uniform(0.5, 1.5))  # noqa: S311

    def _name_right(self, err: PeerError) -> PeerError:
        """The same error; a refusal for want of a right says which are needed to follow a collection."""
        if not isinstance(err, PeerRefused) or err.code != 403:
            return err
        told = needed(("list", "watch"), right_on("list", self._path))
        return PeerRefused(err.peer, f"{err.problem} ({told})", code=403)

    def _watch_once(self) -> None:
        query = {
            **self._selectors,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(WATCH_S),
        }
        with self._api.lines(self._path, query, timeout_s=WATCH_S + WATCH_MARGIN_S) as lines:
            self.problem = None
            self.failures = 0
            for line in lines:
                if self._stop.is_set():
                    return
                self._take(line)

    def _take(self, line: bytes) -> None:
        kind, item = _read_event(line, self._api.peer)
        if kind == "ERROR":
            code = item.get("code")
            raise PeerRefused(
                self._api.peer,
                f"the watch ended: {item.get('reason')}",
                code=code if isinstance(code, int) else None,
            )
        metadata = item.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if not isinstance(version, str) or not version:
            raise PeerRefused(self._api.peer, "an event without a resourceVersion")
        if kind in Kind.__members__:
            self._put(WatchEvent(Kind(kind), item))
        self._version = version

    def _put(self, event: WatchEvent) -> None:
        """Wait for room: a reader that is slow must not make us miss an event."""
        while not self._stop.is_set():
            try:
                self._events.put(event, timeout=1.0)
            except Full:
                continue
            return


def _read_event(line: bytes, peer: str) -> tuple[str, dict[str, Any]]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as err:
        raise PeerRefused(peer, "an event that is no JSON") from err
    match value:
        case {"type": str(kind), "object": dict(item)}:
            return kind, item
        case _:
            raise PeerRefused(peer, "an event without type and object")
