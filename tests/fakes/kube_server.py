"""An API server double over HTTP: lists in pages, watches with bookmarks, patches, and breaks as told."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fakes.kube_discovery import discover
from tests.fakes.kube_paths import NoApi, parse_path
from tests.fakes.kube_reading import Pages, Watch, too_old
from tests.fakes.kube_resources import ApiError, Json, resource_of
from tests.fakes.kube_rights import REVIEWS, Account, Request, answer, asked_by, refuse
from tests.fakes.kube_store import KubeStore

ENDED = "ended:"
"""What the token of an account begins with whose time is over."""


@dataclass
class Faults:
    """What goes wrong; everything is off at first.

    Attributes:
        answers: statuses of the next requests, with a Retry-After in seconds or None.
        token: what the bearer token must be; None: anyone may come.
        denied: (verb, resource) that are answered 403.
        is_deaf: watches stay open and say nothing more.
        page_limit: most objects in a page, whatever was asked for.
        absent: resources that discovery does not tell of.
        expire_pages: how many times a `continue` token is answered 410.
        bookmark_s: how often a quiet watch is sent a bookmark.
    """

    answers: list[tuple[int, int | None]] = field(default_factory=list)
    token: str | None = None
    denied: set[tuple[str, str]] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
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
        accounts: those with rights of their own, by token; any other token is the administrator's.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.store = KubeStore()
        self.faults = Faults()
        self.seen: Counter[tuple[str, str]] = Counter()
        self.patches: list[Any] = []
        self.pages = Pages(self.store)
        self.accounts: dict[str, Account] = {}
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
        except NoApi:
            # A path of no API: no Status, but a text.
            self._send(404, b"404 page not found\n", "text/plain; charset=utf-8")
        except (BrokenPipeError, ConnectionError):
            self.close_connection = True

    def _route(self, verb: str, body: bytes) -> None:
        double = self.server_double
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if (told := discover(parts.path, double.faults.absent)) is not None:
            self._check_token()
            self._answer(200, told)
            return
        group, namespace, resource, name, sub = parse_path(parts.path)
        if verb == "get" and not name:
            verb = "watch" if query.get("watch") else "list"
        double.seen[verb, resource] += 1
        self._refuse_as_told(Request(verb, group, f"{resource}/{sub}" if sub else resource, namespace, name))
        match verb:
            case "watch":
                self._watch(resource, namespace, query)
            case "list":
                self._answer(200, self._list(resource, namespace, query))
            case "get":
                self._answer(200, double.store.get(resource, namespace, name))
            case "delete":
                gone = double.store.delete(resource, namespace, name, json.loads(body or b"{}"))
                self._answer(200, gone if resource_of(resource).tells_deleted else _success(resource, gone))
            case "create" if resource == REVIEWS:
                review = json.loads(body)
                self._answer(201, answer(review, self._may(asked_by(review))))
            case _:
                manager = query.get("fieldManager") or self.headers.get("User-Agent", "").split("/")[0]
                self._write(
                    verb, (resource, namespace, name), body, is_status=sub == "status", manager=manager
                )

    def _write(
        self, verb: str, key: tuple[str, str, str], body: bytes, *, is_status: bool, manager: str
    ) -> None:
        double, resource = self.server_double, key[0]
        kind = self.headers.get("Content-Type")
        if verb == "patch" and kind != "application/json-patch+json":
            raise ApiError(415, "UnsupportedMediaType", "the body is no JSON Patch")
        value = json.loads(body)
        if verb != "patch":
            value["metadata"].setdefault("namespace", key[1])
        match verb:
            case "create":
                self._answer(201, double.store.create(resource, value, manager))
            case "update":
                code = 200 if key in double.store.objects else 201
                self._answer(code, double.store.update(*key, value, status=is_status, manager=manager))
            case "patch":
                double.patches.append(value)
                self._answer(200, double.store.patch(*key, value, status=is_status, manager=manager))

    def _refuse_as_told(self, asked: Request) -> None:
        faults = self.server_double.faults
        self._check_token()
        if asked.resource != REVIEWS and not self._may(asked):
            raise refuse(asked, self._user())
        if faults.answers:
            code, retry_after = faults.answers.pop(0)
            self._retry_after = retry_after
            raise ApiError(code, "Told", "as the test has said")

    def _check_token(self) -> None:
        wanted = self.server_double.faults.token
        if wanted is not None and self._token() != wanted:
            raise _unauthorized()

    def _token(self) -> str:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" else ""

    def _account(self) -> Account | None:
        """Who asks; None: the administrator, as everybody is while there are no accounts."""
        accounts = self.server_double.accounts
        found = accounts.get(self._token())
        if found is None and self._token().startswith(ENDED):
            raise _unauthorized()
        return found

    def _user(self) -> str:
        found = self._account()
        return "admin" if found is None else found.user

    def _may(self, asked: Request) -> bool:
        found = self._account()
        plain = asked.resource.partition("/")[0]
        return (asked.verb, plain) not in self.server_double.faults.denied and (
            found is None or found.may(asked)
        )

    def _list(self, resource: str, namespace: str, query: dict[str, str]) -> Json:
        double = self.server_double
        if query.get("continue") and double.faults.expire_pages > 0:
            double.faults.expire_pages -= 1
            raise too_old()
        return double.pages.read(resource, namespace, query, double.faults.page_limit)

    def _watch(self, resource: str, namespace: str, query: dict[str, str]) -> None:
        double = self.server_double
        at, ends = int(query["resourceVersion"]), time.monotonic() + int(query.get("timeoutSeconds") or 300)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        if at < double.store.compacted:
            gone = ApiError(410, "Expired", f"too old resource version: {at} ({double.store.compacted})")
            self._chunk(json.dumps({"type": "ERROR", "object": gone.body()}).encode() + b"\n")
            self._chunk(b"")
            return
        double._watching.add(self.connection)
        try:
            watch = Watch(double.store, resource, namespace, query, ends, double.faults.bookmark_s)
            while not double.is_closing and time.monotonic() < ends:
                for event in watch.next():
                    if not double.faults.is_deaf:
                        self._chunk(json.dumps(event).encode() + b"\n")
            self._chunk(b"")
        finally:
            double._watching.discard(self.connection)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    _retry_after: int | None = None

    def _answer(self, code: int, value: Json) -> None:
        self._send(code, json.dumps(value).encode(), "application/json")

    def _send(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        if self._retry_after is not None:
            self.send_header("Retry-After", str(self._retry_after))
            self._retry_after = None
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _success(resource: str, gone: Json) -> Json:
    """What a deletion is answered."""
    metadata, about = gone["metadata"], resource_of(resource)
    details = {"name": metadata["name"], "group": about.group, "kind": about.name, "uid": metadata["uid"]}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


def _unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")
