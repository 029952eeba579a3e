"""The platform `sim`: the control interface of the simulated fleet (`vmscaler sim`), over HTTP.

Connections are kept alive; every call has its own time limit. An answer is read to a bound, so that a peer
that is not a fleet can't fill our memory.
"""

from __future__ import annotations

import json
import time
from typing import Any, TypeVar
from urllib.parse import quote

import requests
import urllib3
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from urllib3.exceptions import HTTPError

from app.adapters.client_tls import ClientTls
from app.adapters.deadline_http import deadline_session, never_connected
from app.config.quantities import MAX_MILLI_CPU
from app.core.model import Mode
from app.core.resources import Resources, resources
from app.errors import PeerRefused, PeerTimedOut, PeerUnreachable
from app.ports.platform import Cursor, InventoryChange
from app.ports.sender import TOKEN_HEADER, Sender
from app.ports.store import FencingToken
from app.ports.vm import Address, MonitorPolicy, VirtualMachine, VmKey
from app.protocols.printable import printable

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""A list of 5,000 VMs has about 3 MB."""
LIST_MARGIN_S = 10.0
"""For a long poll to answer, beyond the wait that was asked for."""
_CONNECT_TIMEOUT_S = 2.0
_M = TypeVar("_M", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _Size(_Strict):
    cpu_m: int = Field(gt=0, le=MAX_MILLI_CPU)
    mem: int = Field(gt=0, lt=1 << 53)

    def amount(self) -> Resources:
        return resources(self.cpu_m, self.mem)


class _Address(_Strict):
    host: str = Field(min_length=1, max_length=255)
    port: int = Field(gt=0, le=65_535)

    def address(self) -> Address:
        return Address(self.host, self.port)


class _Vm(_Strict):
    namespace: str = Field(pattern=r"^[A-Za-z0-9._-]{1,253}$")
    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,253}$")
    uid: str = Field(min_length=1, max_length=253)
    node: str = Field(max_length=253)
    min: _Size
    max: _Size
    use: _Size
    observed: _Size | None
    slot_bytes: int = Field(gt=0, lt=1 << 53)
    mode: str = Field(pattern="^(scale|observe)$")
    monitor: str = Field(pattern="^(required|none)$")
    metrics: _Address | None
    monitor_address: _Address | None
    informant: _Address | None = None
    endpoint_id: str | None = Field(default=None, min_length=1, max_length=253)

    @model_validator(mode="after")
    def _check_bounds(self) -> _Vm:
        if self.min.amount().has_field_above(self.max.amount()):
            raise ValueError("min must not exceed max")
        return self

    def machine(self) -> VirtualMachine:
        return VirtualMachine(
            namespace=self.namespace,
            name=self.name,
            uid=self.uid,
            node=self.node,
            min=self.min.amount(),
            max=self.max.amount(),
            use=self.use.amount(),
            observed=None if self.observed is None else self.observed.amount(),
            slot_bytes=self.slot_bytes,
            mode=Mode(self.mode),
            monitor=MonitorPolicy(self.monitor),
            metrics=None if self.metrics is None else self.metrics.address(),
            monitor_address=None if self.monitor_address is None else self.monitor_address.address(),
            informant=None if self.informant is None else self.informant.address(),
            endpoint_id=self.endpoint_id,
        )


class _Changes(_Strict):
    cursor: str = Field(max_length=200)
    full: bool
    vms: list[object]
    removed: list[str]


class _Observed(_Strict):
    observed: _Size


class SimPlatform:
    """`app.ports.platform.Platform` over a fleet's control interface."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        namespace: str | None = None,
        sender: Sender | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        """Nothing connects yet.

        Args:
            url: where the control interface is, such as `http://127.0.0.1:10310`.
            token: sent as a bearer token.
            namespace: show only VMs of this one.
            sender: who asks; None for a reader, which asks for no size.
            tls: whom we believe at an https:// address; None: that can't be asked.
        """
        self._url = url.rstrip("/")
        self._peer = f"simulated fleet at {self._url}"
        self._namespace = namespace
        self._sender = sender
        self._session = deadline_session(tls)
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def changes(self, cursor: Cursor | None, *, wait_s: float) -> InventoryChange:
        """Long poll of the fleet; `wait_s` is cut to the fleet's own longest wait there."""
        query = {"since": cursor or "", "wait": f"{wait_s:.3f}"}
        body = self._call("GET", "/v1/vms", timeout_s=wait_s + LIST_MARGIN_S, query=query)
        found = self._parse(_Changes, body)
        updated: list[VirtualMachine] = []
        unreadable: list[tuple[str, str]] = []
        for raw in found.vms:
            try:
                vm = _Vm.model_validate(raw).machine()
            except ValidationError as err:
                unreadable.append((_name_of(raw), _first_problem(err)))
                continue
            if self._namespace in (None, vm.namespace):
                updated.append(vm)
        removed = tuple(VmKey(key) for key in found.removed)
        return InventoryChange(Cursor(found.cursor), found.full, tuple(updated), removed, tuple(unreadable))

    def read_size(self, vm: VirtualMachine, *, timeout_s: float) -> Resources:
        """The size that the VM really has; our token fences out the bucket's earlier owners there."""
        headers = None if self._sender is None else self._sender.reading_headers(vm.key)
        body = self._call("GET", _path(vm), timeout_s=timeout_s, headers=headers)
        return self._parse(_Observed, body).observed.amount()

    def apply_size(
        self, vm: VirtualMachine, target: Resources, *, token: FencingToken, timeout_s: float
    ) -> None:
        """Ask for a size; refused with 409 (old token), 412 (another basis), 422 (bounds, or a plain no)."""
        asked = {"cpu_m": target.cpu, "mem": target.mem, "basis": {"cpu_m": vm.use.cpu, "mem": vm.use.mem}}
        headers = {TOKEN_HEADER: str(token)}
        if self._sender is not None:
            headers |= self._sender.headers(vm.key)
        self._call("PUT", f"{_path(vm)}/size", timeout_s=timeout_s, body=asked, headers=headers)

    def close(self) -> None:
        """Close all connections."""
        self._session.close()

    def _call(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float,
        query: dict[str, str] | None = None,
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> object:
        """One request; its JSON if the status is 2xx. Raises the errors of the port."""
        deadline = time.monotonic() + timeout_s
        limit: Any = urllib3.Timeout(connect=min(_CONNECT_TIMEOUT_S, timeout_s), total=timeout_s)
        try:
            with self._session.request(
                method,
                self._url + path,
                params=query,
                json=body,
                headers=headers,
                timeout=limit,
                allow_redirects=False,
                stream=True,
            ) as response:
                content = self._read(response, deadline)
        except requests.ConnectTimeout as err:
            raise PeerUnreachable(self._peer, "no connection in time") from err
        except requests.ConnectionError as err:
            if (problem := never_connected(err)) is not None:
                raise PeerUnreachable(self._peer, problem) from err
            raise PeerTimedOut(self._peer, "the connection broke before an answer came") from err
        except (requests.RequestException, HTTPError, OSError) as err:
            raise PeerTimedOut(self._peer, f"no answer in {timeout_s:g} s") from err
        return self._judge(response.status_code, content)

    def _read(self, response: requests.Response, deadline: float) -> bytes:
        content = bytearray()
        while chunk := response.raw.read1(65_536):
            content += chunk
            if len(content) > MAX_ANSWER_BYTES:
                raise PeerRefused(
                    self._peer, f"answer over {MAX_ANSWER_BYTES} bytes", code=response.status_code
                )
            if time.monotonic() > deadline:
                raise PeerTimedOut(self._peer, "the answer was not complete in time")
        return bytes(content)

    def _judge(self, status: int, content: bytes) -> object:
        if status >= 500:
            raise PeerTimedOut(self._peer, f"status {status}")
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            value = None
        if not 200 <= status < 300:
            text = value.get("error") if isinstance(value, dict) else None
            raise PeerRefused(self._peer, printable(str(text or f"status {status}")), code=status)
        return value

    def _parse(self, model: type[_M], value: object) -> _M:
        try:
            return model.model_validate(value)
        except ValidationError as err:
            raise PeerRefused(self._peer, f"answer can't be read: {_first_problem(err)}") from err


def _path(vm: VirtualMachine) -> str:
    return f"/v1/vms/{quote(vm.namespace, safe='')}/{quote(vm.name, safe='')}"


def _name_of(raw: object) -> str:
    """What can be said of a VM that can't be read."""
    if not isinstance(raw, dict):
        return "?"
    return printable(f"{raw.get('namespace', '?')}/{raw.get('name', '?')}")


def _first_problem(err: ValidationError) -> str:
    first = err.errors(include_url=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    return printable(f"{path}: {first['msg']}" if path else first["msg"])
