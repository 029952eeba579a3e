"""An API server double over HTTP: lists in pages, watches with bookmarks, patches, and breaks as told."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.kube_store import ApiError, Json, KubeStore, matches

WITH_STATUS = ("virtualmachines", "pods")
"""Resources whose status is changed by its subresource alone."""

API_PATHS = ("/apis/vm.neon.tech/v1", "/apis/coordination.k8s.io/v1", "/apis/discovery.k8s.io/v1", "/api/v1")


@dataclass
class Faults:
    """What goes wrong; everything is off at first.

    Attributes:
        answers: statuses of the next requests, with a Retry-After in seconds or None.
        token: what the bearer token must be; None: anyone may come.
        denied: (verb, resource) that are answered 403.
        is_deaf: watches stay open and say nothing more.
        page_limit: most objects in a page, whatever was asked for.
        expire_pages: how many times a `continue` token is answered 410.
        bookmark_s: how often a quiet watch is sent a bookmark.
    """

    answers: list[tuple[int, int | None]] = field(default_factory=list)
    token: str | None = None
    denied: set[tuple[str, str]] = field(default_factory=set)
    is_deaf: bool = False
    page_limit: int = 10_000
    expire_pages: int = 0
    bookmark_s: float = 0.2


class KubeServer:
    """The double, listening on a free port of the loopback address until `close`.

    Args:
        tls: it serves HTTPS with this.
        port: to listen on; 0: a free one.

    Attributes:
        seen: how often each (verb, resource) was asked for.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.store = KubeStore()
        self.faults = Faults()
        self.seen: Counter[tuple[str, str]] = Counter()
        self.patches: list[Any] = []
        self.pages: dict[str, tuple[int, list[Json]]] = {}
        self.is_closing = False
        self._watching: set[socket.socket] = set()
        outer = self

        class Handler(_Handler):
            server_double = outer

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True
        self._is_tls = tls is not None
        if tls is not None:
            # The handshake is made by the connection's own thread: nobody keeps others waiting.
            self._http.socket = tls.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http{'s' if self._is_tls else ''}://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return self._http.server_port

    def kubeconfig(self, path: str, token: str = "t", *, server: str = "", **files: str) -> str:
        """Write a kubeconfig that leads here; its path.

        Args:
            server: another URL, as a proxy's.
            files: certificate_authority, client_certificate, client_key, tokenFile.
        """
        given = {name.replace("_", "-"): file for name, file in files.items()}
        authority = {name: given.pop(name) for name in ("certificate-authority",) if name in given}
        user = given if "tokenFile" in given else {"token": token, **given}
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": server or self.url, **authority}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "users": [{"name": "u", "user": user}],
        }
        with open(path, "w", encoding="utf-8") as file:
            json.dump(text, file)
        return path

    def cut_watches(self) -> int:
        """Break every open watch in the middle, as a load balancer does; how many there were."""
        found = list(self._watching)
        for each in found:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        return len(found)

    @property
    def open_watches(self) -> int:
        return len(self._watching)

    def close(self) -> None:
        self.is_closing = True
        with self.store.changed:
            self.store.changed.notify_all()
        self.cut_watches()
        self._http.shutdown()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    server_double: KubeServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test's output is its own."""

    def do_GET(self) -> None:
        self._serve("get")

    def do_POST(self) -> None:
        self._serve("create")

    def do_PUT(self) -> None:
        self._serve("update")

    def do_PATCH(self) -> None:
        self._serve("patch")

    def do_DELETE(self) -> None:
        self._serve("delete")

    def _serve(self, verb: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self._route(verb, body)
        except ApiError as err:
            self._answer(err.code, err.body())
        except (BrokenPipeError, ConnectionError):
            self.close_connection = True

    def _route(self, verb: str, body: bytes) -> None:
        double = self.server_double
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        namespace, resource, name, sub = _parse(parts.path)
        if verb == "get" and not name:
            verb = "watch" if query.get("watch") else "list"
        double.seen[verb, resource] += 1
        self._refuse_as_told(verb, resource)
        store, manager = double.store, query.get("fieldManager", "python")
        match verb:
            case "watch":
                self._watch(resource, namespace, query)
            case "list":
                self._answer(200, self._list(resource, namespace, query))
            case "get":
                self._answer(200, store.get(resource, namespace, name))
            case "create":
                item = json.loads(body)
                item["metadata"].setdefault("namespace", namespace)
                if resource in WITH_STATUS:
                    item.pop("status", None)
                self._answer(201, store.create(resource, item, manager))
            case "update":
                self._answer(200, store.update(resource, namespace, name, json.loads(body), manager))
            case "patch":
                if self.headers.get("Content-Type") != "application/json-patch+json":
                    raise ApiError(415, "UnsupportedMediaType", "the body is no JSON Patch")
                double.patches.append(json.loads(body))
                found = store.patch(
                    resource, namespace, name, json.loads(body), status=sub == "status", manager=manager
                )
                self._answer(200, found)
            case "delete":
                self._answer(200, store.delete(resource, namespace, name))

    def _refuse_as_told(self, verb: str, resource: str) -> None:
        faults = self.server_double.faults
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if faults.token is not None and (scheme.lower() != "bearer" or token != faults.token):
            raise ApiError(401, "Unauthorized", "Unauthorized")
        if (verb, resource) in faults.denied:
            raise ApiError(403, "Forbidden", f"{resource} is forbidden: User cannot {verb} resource")
        if faults.answers:
            code, retry_after = faults.answers.pop(0)
            self._retry_after = retry_after
            raise ApiError(code, "Told", "as the test has said")

    def _list(self, resource: str, namespace: str, query: dict[str, str]) -> Json:
        double = self.server_double
        store, limit = double.store, min(int(query.get("limit") or 10_000), double.faults.page_limit)
        with store.changed:
            found, version = None, store.version
            if token := query.get("continue"):
                if double.faults.expire_pages > 0:
                    double.faults.expire_pages -= 1
                    raise ApiError(410, "Expired", "The provided continue parameter is too old")
                if token not in double.pages:
                    raise ApiError(400, "BadRequest", "continue key is not valid")
                version, found = double.pages[token]
            if found is None:
                asked = [
                    item
                    for key, item in store.objects.items()
                    if self._is_asked(key, item, resource, namespace, query)
                ]
                asked.sort(key=lambda item: (item["metadata"].get("namespace", ""), item["metadata"]["name"]))
                # Through JSON: later pages too are of the moment of the first.
                found = json.loads(json.dumps(asked))
            metadata: Json = {"resourceVersion": str(version)}
            if limit < len(found):
                token = metadata["continue"] = uuid.uuid4().hex
                double.pages[token] = version, found[limit:]
            return {"metadata": metadata, "items": found[:limit]}

    @staticmethod
    def _is_asked(
        key: tuple[str, str, str], item: Json, resource: str, namespace: str, query: dict[str, str]
    ) -> bool:
        return (
            key[0] == resource
            and namespace in ("", key[1])
            and matches(item, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        )

    def _watch(self, resource: str, namespace: str, query: dict[str, str]) -> None:
        double = self.server_double
        store, at = double.store, int(query["resourceVersion"])
        ends = time.monotonic() + int(query.get("timeoutSeconds") or 300)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if at < store.compacted:
            gone = ApiError(410, "Expired", f"too old resource version: {at} ({store.compacted})")
            self._chunk(json.dumps({"type": "ERROR", "object": gone.body()}).encode() + b"\n")
            self._chunk(b"")
            self.close_connection = True
            return
        double._watching.add(self.connection)
        try:
            while not double.is_closing and time.monotonic() < ends:
                events, at = self._next(resource, namespace, query, at, ends)
                for event in events:
                    if not double.faults.is_deaf:
                        self._chunk(json.dumps(event).encode() + b"\n")
            self._chunk(b"")
        finally:
            double._watching.discard(self.connection)
            self.close_connection = True

    def _next(
        self, resource: str, namespace: str, query: dict[str, str], at: int, ends: float
    ) -> tuple[list[Json], int]:
        double = self.server_double
        store = double.store
        with store.changed:
            if store.version <= at:
                store.changed.wait(max(min(double.faults.bookmark_s, ends - time.monotonic()), 0.001))
            found = []
            for change in store.log:
                if change.version > at and change.resource == resource:
                    kind = self._kind_seen(change.old, change.new, change.kind, namespace, query)
                    if kind:
                        found.append({"type": kind, "object": change.new})
            if not found and query.get("allowWatchBookmarks"):
                marked = {"metadata": {"resourceVersion": str(store.version)}}
                found = [{"type": "BOOKMARK", "object": marked}]
            return found, store.version

    def _kind_seen(
        self, old: Json | None, new: Json, kind: str, namespace: str, query: dict[str, str]
    ) -> str | None:
        """What a watch with selectors is told: an object that stops matching is a deleted one."""

        def is_asked(item: Json | None) -> bool:
            if item is None:
                return False
            key = ("r", item["metadata"].get("namespace", ""), item["metadata"]["name"])
            return self._is_asked(key, item, "r", namespace, query)

        before, after = is_asked(old), is_asked(new) and kind != "DELETED"
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    _retry_after: int | None = None

    def _answer(self, code: int, value: Json) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        if self._retry_after is not None:
            self.send_header("Retry-After", str(self._retry_after))
            self._retry_after = None
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _parse(path: str) -> tuple[str, str, str, str]:
    """(namespace, resource, name, subresource)."""
    for base in API_PATHS:
        if path.startswith(base + "/"):
            parts = [unquote(part) for part in path[len(base) + 1 :].split("/")]
            namespace = ""
            if parts[0] == "namespaces" and len(parts) > 2:
                namespace, parts = parts[1], parts[2:]
            name = parts[1] if len(parts) > 1 else ""
            return namespace, parts[0], name, parts[2] if len(parts) > 2 else ""
    raise ApiError(404, "NotFound", "the server could not find the requested resource")
