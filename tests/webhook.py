"""A validating webhook for a real API server: it denies changes of the objects that a test names."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.fakes.certificates import Certificate

NAME = "validate.vm.neon.tech"


class Webhook:
    """It listens on a free port of loopback until `close`.

    Attributes:
        denied: why an object's changes are denied, by its name.
        code: of the denials; None: the webhook tells none.
    """

    def __init__(self, certificate: Certificate) -> None:
        self.denied: dict[str, str] = {}
        self.code: int | None = 403
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: a test's output is its own."""

            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps({**review, "response": outer._judge(review["request"])}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.cert, certificate.key)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._http.server_port}/"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def configuration(self, authority: bytes) -> dict[str, Any]:
        """What the API server is told of it; `authority` is the PEM certificate, in base64."""
        rule = {
            "apiGroups": ["vm.neon.tech"],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["virtualmachines"],
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": NAME},
            "webhooks": [
                {
                    "name": NAME,
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "clientConfig": {"url": self.url, "caBundle": authority.decode()},
                    "rules": [rule],
                }
            ],
        }

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _judge(self, request: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"uid": request["uid"], "allowed": request["name"] not in self.denied}
        if not found["allowed"]:
            code = {} if self.code is None else {"code": self.code, "reason": "Forbidden"}
            found["status"] = {"message": self.denied[request["name"]], **code}
        return found
