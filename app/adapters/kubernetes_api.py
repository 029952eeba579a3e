"""A Kubernetes API server: bounded requests and watch streams, with the client library's credentials.

The library reads kubeconfig and in-cluster configuration, refreshes tokens and builds the TLS context; its
requests have no limit on an answer's size and sleep where a server asks to wait, so they are made here.
Credentials may change while we run: they are loaded again when their files change, and after a 401.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError

from app.errors import ConfigurationError, PeerError, PeerRefused, PeerTimedOut, PeerUnreachable
from app.protocols.printable import printable

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""A page of 500 VMs has 2 to 5 MB."""

TOO_LARGE = 413
"""`code` of an answer that is over it: a smaller page may not be."""

MAX_LINE_BYTES = 4 * 1024 * 1024
"""One event of a watch; an object has at most 1.5 MB."""

CONNECT_TIMEOUT_S = 5.0
RELOAD_PAUSE_S = 10.0
"""Credentials are not loaded anew more often than this, however many requests are refused."""
MAX_RETRY_AFTER_S = 60.0
_CHUNK = 65_536
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"

JsonObject = dict[str, Any]

_Request = tuple[str, str, Mapping[str, str] | None, object, str]
"""Method, path, query, body, content type."""


class ApiServer:
    """One API server.

    Args:
        kubeconfig: a file; None: in-cluster configuration where there is one, else the default kubeconfig.
        context: of the kubeconfig; None: its current one.
        monotonic: seconds, for pauses.

    Attributes:
        date: the Date header of the last answer to `call`.
    """

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._monotonic = monotonic
        self._client: Any = None
        self._stamp: tuple[tuple[str, float], ...] = ()
        self._loaded_at = 0.0
        self._ask_again_at = 0.0
        self.requests = 0
        self.date: str | None = None

    def call(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
    ) -> JsonObject:
        """One request; the object that was answered.

        Raises:
            PeerUnreachable: nothing was sent.
            PeerTimedOut: no whole answer, or a 5xx: it may have taken effect.
            PeerRefused: `code` is the status, or `TOO_LARGE`; a 429 keeps all requests back for as
                long as the server asked.
            ConfigurationError: the credentials can't be loaded.
        """
        deadline = self._monotonic() + timeout_s
        try:
            content, status = self._exchange((method, path, query, body, content_type), deadline)
        except PeerRefused as err:
            # A token that was changed: nothing was done, so the new one is tried at once.
            if err.code != 401 or not self._may_load():
                raise
            content, status = self._exchange((method, path, query, body, content_type), deadline)
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise PeerRefused(self.peer, "answered something that is no JSON object", code=status)
        return value

    def _exchange(self, request: _Request, deadline: float) -> tuple[bytes, int]:
        timeout_s = max(deadline - self._monotonic(), 0.01)
        with self._open(request, timeout_s) as response:
            content = self._read(response, deadline)
            self.date = response.headers.get("Date")
            self._judge(response, content)
            return content, response.status

    @contextmanager
    def lines(self, path: str, query: Mapping[str, str], *, timeout_s: float) -> Iterator[Iterator[bytes]]:
        """A watch's events, one JSON text each, until the server ends it or `timeout_s` has gone by.

        Raises:
            PeerError: as `call`; PeerTimedOut also where the stream goes on past its time or breaks off.
        """
        deadline = self._monotonic() + timeout_s
        with self._open(("GET", path, query, None, ""), timeout_s) as response:
            if response.status != 200:
                self._judge(response, self._read(response, deadline))
            yield self._split(response, deadline)

    def check(self) -> None:
        """Load the credentials, without a request. Raises ConfigurationError where that can't be done."""
        self._load()

    @property
    def peer(self) -> str:
        """How errors call it."""
        host = "" if self._client is None else self._client.configuration.host
        return f"Kubernetes API server {printable(host)}".rstrip()

    def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        if self._client is not None:
            self._client.rest_client.close()

    # --- one exchange ---------------------------------------------------------------------------------------

    @contextmanager
    def _open(self, request: _Request, timeout_s: float) -> Iterator[Any]:
        method, path, query, body, content_type = request
        wait = self._ask_again_at - self._monotonic()
        if wait > 0:
            raise PeerRefused(self.peer, f"asked us to wait for {wait:.0f} s more", code=429)
        self._load()
        url = self._client.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "User-Agent": "vmscaler", **self._credentials()}
        if body is not None:
            headers["Content-Type"] = content_type
        limit = urllib3.Timeout(connect=min(CONNECT_TIMEOUT_S, timeout_s), read=timeout_s)
        self.requests += 1
        try:
            response = self._client.rest_client.pool_manager.request(
                method,
                url,
                headers=headers,
                body=None if body is None else json.dumps(body),
                timeout=limit,
                preload_content=False,
                retries=False,
                redirect=False,
            )
        except (NewConnectionError, ConnectTimeoutError) as err:
            raise PeerUnreachable(self.peer, "no connection") from err
        except SSLError as err:
            raise PeerUnreachable(self.peer, f"no TLS connection: {printable(str(err))}") from err
        except (HTTPError, OSError) as err:
            raise PeerTimedOut(self.peer, f"no answer: {printable(type(err).__name__)}") from err
        try:
            yield response
        finally:
            # A stream that was not read to its end can't be used again.
            if response.isclosed():
                response.release_conn()
            else:
                response.close()

    def _read(self, response: Any, deadline: float) -> bytes:
        content = bytearray()
        for chunk in self._chunks(response, deadline):
            content += chunk
            if len(content) > MAX_ANSWER_BYTES:
                raise PeerRefused(self.peer, f"answer over {MAX_ANSWER_BYTES} bytes", code=TOO_LARGE)
        return bytes(content)

    def _split(self, response: Any, deadline: float) -> Iterator[bytes]:
        rest = b""
        for chunk in self._chunks(response, deadline):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line for line in whole if line.strip())
            if len(rest) > MAX_LINE_BYTES:
                raise PeerRefused(self.peer, f"an event over {MAX_LINE_BYTES} bytes")
        if rest.strip():
            raise PeerTimedOut(self.peer, "the stream broke off in the middle of an event")

    def _chunks(self, response: Any, deadline: float) -> Iterator[bytes]:
        while True:
            try:
                chunk = response.read1(_CHUNK)
            except (HTTPError, OSError) as err:
                raise PeerTimedOut(
                    self.peer, f"the answer broke off: {printable(type(err).__name__)}"
                ) from err
            if not chunk:
                return
            yield chunk
            if self._monotonic() > deadline:
                raise PeerTimedOut(self.peer, "the answer was not complete in time")

    def _judge(self, response: Any, content: bytes) -> None:
        status = response.status
        if 200 <= status < 300:
            return
        problem = f"status {status}{_message(content)}"
        if status == 401:
            self._stamp = ()
        if status == 429 or (status == 503 and response.headers.get("Retry-After")):
            self._keep_back(response.headers.get("Retry-After"))
            raise PeerRefused(self.peer, problem, code=429)
        if status >= 500:
            raise PeerTimedOut(self.peer, problem)
        raise PeerRefused(self.peer, problem, code=status)

    def _keep_back(self, retry_after: str | None) -> None:
        wait = float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else 1.0
        self._ask_again_at = self._monotonic() + min(wait, MAX_RETRY_AFTER_S)

    # --- credentials ----------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Load credentials at first, when their files have changed, and after a 401."""
        if self._client is not None and (not self._may_load() or self._stamp == self._read_stamp()):
            return
        # Imported here: it costs 0.2 s, and only this platform needs it.
        from kubernetes import client, config

        load_in_cluster: Any = config.load_incluster_config
        load_file: Any = config.load_kube_config
        found = client.Configuration()
        found.client_side_validation = False
        try:
            if self._kubeconfig is None and os.environ.get(_IN_CLUSTER):
                load_in_cluster(client_configuration=found)
            else:
                load_file(self._kubeconfig, self._context, found, persist_config=False)
            loaded = client.ApiClient(found)
        except Exception as err:
            # The library lets everything out that a file can cause, YAML's errors and KeyError among it.
            if self._client is not None:
                # A file that is being written: what was loaded goes on until it can be read.
                return
            raise ConfigurationError([f".kubernetes.kubeconfig: {printable(str(err))}"]) from err
        self._client = loaded
        self._loaded_at = self._monotonic()
        self._stamp = self._read_stamp()

    def _may_load(self) -> bool:
        return self._monotonic() - self._loaded_at >= RELOAD_PAUSE_S

    def _read_stamp(self) -> tuple[tuple[str, float], ...]:
        """The files that credentials come from, and when each was changed."""
        found = self._client.configuration
        names = (found.ssl_ca_cert, found.cert_file, found.key_file, *self._kubeconfigs())
        return tuple((name, _changed_at(name)) for name in names if name)

    def _kubeconfigs(self) -> list[str]:
        """The files of the kubeconfig, the default one's too."""
        if self._kubeconfig is not None or os.environ.get(_IN_CLUSTER):
            return [self._kubeconfig or ""]
        from kubernetes.config import kube_config

        return [
            os.path.expanduser(each) for each in kube_config.KUBE_CONFIG_DEFAULT_LOCATION.split(os.pathsep)
        ]

    def _credentials(self) -> dict[str, str]:
        """The authorization header; a token that has expired is refreshed by the library's hook."""
        try:
            settings = self._client.configuration.auth_settings()
        except Exception as err:
            # Such as a file that is being replaced, and empty or half there for the moment.
            raise PeerUnreachable(self.peer, f"no token: {printable(str(err))}") from err
        return {
            each["key"]: each["value"].strip()
            for each in settings.values()
            if each["in"] == "header" and each["value"]
        }


def is_gone(err: PeerError) -> bool:
    """Whether a resourceVersion or a page's token is too old: list again."""
    return isinstance(err, PeerRefused) and err.code == 410


def _changed_at(name: str) -> float:
    try:
        return os.stat(name).st_mtime
    except OSError:
        return 0.0


def _message(content: bytes) -> str:
    """The message of a Status object, untrusted, as far as there is one."""
    try:
        value = json.loads(content[:_CHUNK])
    except (ValueError, RecursionError):
        return ""
    text = value.get("message") if isinstance(value, dict) else None
    return f": {printable(text)}" if isinstance(text, str) and text else ""
