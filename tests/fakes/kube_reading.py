"""Lists in pages and watches with bookmarks of the API server double, over its store."""

from __future__ import annotations

import copy
import json
import time
import uuid

from tests.fakes.kube_resources import ApiError, Json, resource_of
from tests.fakes.kube_store import Change, KubeStore, matches

LAST_BOOKMARK_S = 2.0
"""Before its end a watch is sent a bookmark, whatever its interval."""


class Pages:
    """Lists, and what their later pages will hold."""

    def __init__(self, store: KubeStore) -> None:
        self._store = store
        self._rest: dict[str, tuple[int, list[Json]]] = {}

    def read(self, resource: str, namespace: str, query: dict[str, str], most: int) -> Json:
        """One page, of at most so many objects, whatever was asked for."""
        limit = min(int(query.get("limit") or most), most)
        with self._store.changed:
            if token := query.get("continue"):
                version, found = self._go_on(token)
            else:
                version, found = self._store.version, self._begin(resource, namespace, query)
            about = resource_of(resource)
            metadata: Json = {"resourceVersion": str(version)}
            if limit < len(found):
                token = metadata["continue"] = uuid.uuid4().hex
                self._rest[token] = version, found[limit:]
                if not (query.get("labelSelector") or query.get("fieldSelector")):
                    metadata["remainingItemCount"] = len(found) - limit
            kinds = {"apiVersion": about.api_version, "kind": f"{about.kind}List"}
            return {**kinds, "metadata": metadata, "items": found[:limit]}

    def _begin(self, resource: str, namespace: str, query: dict[str, str]) -> list[Json]:
        asked = [
            item
            for key, item in self._store.objects.items()
            if key[0] == resource and is_asked(item, namespace, query)
        ]
        asked.sort(key=lambda item: (item["metadata"].get("namespace", ""), item["metadata"]["name"]))
        # Through JSON: later pages too are of the moment of the first.
        found: list[Json] = json.loads(json.dumps(asked))
        if not resource_of(resource).is_custom:
            for item in found:
                item.pop("apiVersion", None)
                item.pop("kind", None)
        return found

    def _go_on(self, token: str) -> tuple[int, list[Json]]:
        if token not in self._rest:
            raise ApiError(400, "BadRequest", "continue key is not valid")
        version, found = self._rest[token]
        if version < self._store.compacted:
            raise too_old()
        return version, found


def too_old() -> ApiError:
    """Of a `continue` token."""
    return ApiError(410, "Expired", "The provided continue parameter is too old")


def is_asked(item: Json, namespace: str, query: dict[str, str]) -> bool:
    """Whether a list or watch is about the object."""
    return namespace in ("", item["metadata"].get("namespace", "")) and matches(
        item, query.get("labelSelector", ""), query.get("fieldSelector", "")
    )


class Watch:
    """One watch's place in the log.

    Args:
        ends: by the monotonic clock.
        bookmark_s: how often a quiet one is sent a bookmark.
    """

    def __init__(
        self,
        store: KubeStore,
        resource: str,
        namespace: str,
        query: dict[str, str],
        ends: float,
        bookmark_s: float,
    ) -> None:
        self._store = store
        self._resource, self._namespace, self._query = resource, namespace, query
        self._ends = ends
        self._bookmark_s = bookmark_s
        self._at = int(query["resourceVersion"])
        self._told_version = self._at
        self._told = time.monotonic()
        self._is_last_told = False

    def next(self) -> list[Json]:
        """What is to be told now; nothing, if nothing was in a while."""
        with self._store.changed:
            if self._store.version <= self._at:
                self._store.changed.wait(max(self._due() - time.monotonic(), 0.001))
            found = [event for change in self._store.since(self._at) if (event := self._event(change))]
            self._at = self._store.version
            now = time.monotonic()
            if found:
                self._told, self._told_version = now, self._at
            elif now >= self._due():
                self._is_last_told = self._is_last_told or now >= self._ends - LAST_BOOKMARK_S
                self._told = now
                # One that tells nothing new is not sent.
                if self._at > self._told_version and self._query.get("allowWatchBookmarks"):
                    self._told_version = self._at
                    found = [self._bookmark()]
            return found

    def _due(self) -> float:
        last = self._ends if self._is_last_told else self._ends - LAST_BOOKMARK_S
        return min(self._told + self._bookmark_s, max(last, self._told))

    def _bookmark(self) -> Json:
        about = resource_of(self._resource)
        marked = {
            "kind": about.kind,
            "apiVersion": about.api_version,
            "metadata": {"resourceVersion": str(self._at)},
        }
        return {"type": "BOOKMARK", "object": marked}

    def _event(self, change: Change) -> Json | None:
        """What a watch with selectors is told: an object that stops matching is a deleted one."""
        if change.resource != self._resource:
            return None
        before = change.old is not None and is_asked(change.old, self._namespace, self._query)
        after = change.kind != "DELETED" and is_asked(change.new, self._namespace, self._query)
        if after:
            return {"type": "MODIFIED" if before else "ADDED", "object": change.new}
        if not before or change.old is None:
            return None
        return {"type": "DELETED", "object": gone_as_of(change.old, change.version)}


def gone_as_of(item: Json, version: int) -> Json:
    """What a watch tells of an object that is gone for it: as it was, of the version at which it went."""
    found = copy.deepcopy(item)
    found["metadata"]["resourceVersion"] = str(version)
    return found
