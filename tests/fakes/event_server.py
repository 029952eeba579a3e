"""A server that takes events as a sink, a webhook's receiver or S3 does, and fails on purpose."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import re
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypeVar


class Request(NamedTuple):
    """One request; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class EventServer:
    """What arrived, and what is answered.

    Attributes:
        answers: codes of the next answers, then 200; 0: the connection is closed without one.
        s3_keys: id and secret; set: requests must be signed with them, objects are kept.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: deque[int] = deque()
        self.s3_keys: tuple[str, str] | None = None
        self.objects: dict[str, bytes] = {}
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def events(self) -> list[dict[str, Any]]:
        """All that was posted in batches, also what was answered with an error."""
        return [event for request in self.requests for event in json.loads(request.body)["events"]]

    def object_lines(self) -> list[dict[str, Any]]:
        """All lines of all objects."""
        return [
            json.loads(line)
            for name in sorted(self.objects)
            for line in gzip.decompress(self.objects[name]).splitlines()
        ]

    def answer(self, request: Request) -> tuple[int, bytes]:
        self.requests.append(request)
        code = self.answers.popleft() if self.answers else 200
        if self.s3_keys is not None:
            problem = s3_problem(request, *self.s3_keys)
            if problem:
                return 403, f"<Error><Code>{problem}</Code></Error>".encode()
            if code in (200, 500):
                self.objects[request.path] = request.body
        return code, b"as told" if code >= 300 else b""


def s3_problem(request: Request, access_key: str, secret_key: str) -> str:
    """What S3 would object to; "" for a good signature. Written from its specification, not our signer."""
    match = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([a-z0-9-]+)/s3/aws4_request, "
        r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})",
        request.headers.get("authorization", ""),
    )
    if match is None:
        return "AuthorizationHeaderMalformed"
    key_id, day, region, signed, signature = match.groups()
    names = signed.split(";")
    if key_id != access_key:
        return "InvalidAccessKeyId"
    if not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names) or names != sorted(names):
        return "AccessDenied"
    digest = request.headers["x-amz-content-sha256"]
    if hashlib.sha256(request.body).hexdigest() != digest:
        return "XAmzContentSHA256Mismatch"
    path, _, query = request.path.partition("?")
    lines = [request.method, path, query, *(f"{name}:{request.headers[name]}" for name in names)]
    canonical = "\n".join([*lines, "", signed, digest])
    moment = request.headers["x-amz-date"]
    scope = f"{day}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = b"AWS4" + secret_key.encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    good = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return "" if good == signature and moment.startswith(day) else "SignatureDoesNotMatch"


AnyServer = TypeVar("AnyServer", bound=EventServer)


@contextmanager
def event_server(server: AnyServer) -> Iterator[AnyServer]:
    """Run it on loopback while the block does."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = self.rfile.read(length)
            if len(body) < length:
                # Whoever sent it was killed meanwhile: it is no request.
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            code, answer = server.answer(Request(self.command, self.path, headers, body))
            if code == 0:
                self.close_connection = True
                return
            self.send_response(code)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_PUT = _do

        def log_message(self, *arguments: object) -> None:
            """Quiet."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that was killed in the middle is no news here."""

    http = Server(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, args=(0.05,), name="event server", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join(10)
