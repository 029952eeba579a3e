"""The control interface of the fleet: HTTP and JSON, for the platform adapter and for whoever tests.

Sizes are `{"cpu_m": milli-vCPU, "mem": slots}`. Errors are `{"error": text}` with the status.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from app.core.resources import Resources, resources
from app.errors import InvalidInput
from app.fleet.fleet import Fleet, SizeRequest
from app.fleet.host_vm import HostVm
from app.fleet.simulated_vm import SimulatedVm
from app.fleet.state_file import size_facts
from app.guest.access import Access
from app.guest.http_messages import Request, Response, Upgrade, json_response
from app.ports.sender import BUCKET_HEADER, HOLDER_HEADER, TOKEN_HEADER, readable
from app.simulation.faults import FAULT_EFFECTS, Fault
from app.simulation.profiles import Demand

LONGEST_WAIT_S = 30.0
"""A long poll is answered by then, whatever it asked for."""
_MOST = 1 << 53
_MAX_NAMES = 1_000


class ControlInterface:
    """Answers requests; every route but `/healthz` and `/readyz` needs the token, if there is one."""

    def __init__(self, fleet: Fleet, *, host: str, access: Access, observed: HostVm | None) -> None:
        """`host`: where the VMs' servers listen; `observed`: this machine, shown beside the fleet."""
        self._fleet = fleet
        self._host = host
        self._access = access
        self._observed = observed

    async def handle(self, request: Request) -> Response | Upgrade:
        """The handler for `app.guest.server.Server`."""
        is_health = request.path in ("/healthz", "/readyz")
        refusal = self._access.refusal(request, is_protected=not is_health)
        if refusal is not None:
            return _error(refusal.status, refusal.body.decode().strip())
        if is_health:
            return json_response({"vms": len(self._fleet.vms)})
        try:
            return await self._route(request)
        except InvalidInput as err:
            return _error(400, str(err))

    async def _route(self, request: Request) -> Response:
        match [part for part in request.path.split("/") if part]:
            case ["v1", "vms"] if request.method == "GET":
                return await self._list(request)
            case ["v1", "faults"] if request.method == "GET":
                return json_response(self._fleet.faults.facts())
            case ["v1", "faults"] if request.method == "POST":
                return self._switch_faults(request)
            case ["v1", "vms", namespace, name, *rest]:
                return self._one(request, f"{namespace}/{name}", "/".join(rest))
        return _error(404, "no such route")

    def _one(self, request: Request, key: str, rest: str) -> Response:
        if self._observed is not None and key == self._observed.key:
            return self._host_only(request, rest)
        vm = self._fleet.vms.get(key)
        if vm is None:
            return _error(404, "no such VM")
        routes: dict[tuple[str, str], Callable[[Request, SimulatedVm], Response]] = {
            ("GET", ""): self._show,
            ("DELETE", ""): self._delete,
            ("PUT", "size"): self._ask_size,
            ("PUT", "bounds"): self._set_bounds,
            ("POST", "load"): self._set_load,
        }
        route = routes.get((request.method, rest))
        return _error(404, "no such route") if route is None else route(request, vm)

    def _host_only(self, request: Request, rest: str) -> Response:
        if self._observed is None or (request.method, rest) != ("GET", ""):
            return _error(403, "this machine is only observed")
        return json_response(self._observed.facts())

    async def _list(self, request: Request) -> Response:
        try:
            parameters = request.parameters()
            wait_s = float(parameters.get("wait", "0"))
        except ValueError as err:
            raise InvalidInput("query", str(err)) from err
        cursor = parameters.get("since", "")
        changes = await self._fleet.log.wait(cursor, min(max(wait_s, 0.0), LONGEST_WAIT_S))
        shown = [self._facts(self._fleet.vms[key]) for key in changes.updated if key in self._fleet.vms]
        if changes.is_full and self._observed is not None:
            shown.append(self._observed.facts())
        return json_response(
            {
                "cursor": changes.cursor,
                "full": changes.is_full,
                "vms": shown,
                "removed": list(changes.removed),
            }
        )

    def _facts(self, vm: SimulatedVm) -> dict[str, object]:
        return vm.facts(self._host)

    def _show(self, request: Request, vm: SimulatedVm) -> Response:
        if request.headers.get(TOKEN_HEADER.lower()):
            self._fleet.see_token(readable(request.headers.get(BUCKET_HEADER.lower())), _token(request))
        model = self._fleet.present(vm).model
        demand = model.demand
        physics = {
            "load1": model.load.load1,
            "cpu_demand": demand.cpu,
            "mem_demand_bytes": demand.mem_bytes,
            "mem_used_bytes": model.used_bytes,
        }
        return json_response(self._facts(vm) | {"physics": physics})

    def _delete(self, request: Request, vm: SimulatedVm) -> Response:
        self._fleet.delete(vm)
        return json_response({"deleted": vm.key})

    def _ask_size(self, request: Request, vm: SimulatedVm) -> Response:
        body = _object(request)
        asked = SizeRequest(
            _size(body, "body"),
            _size(body.get("basis"), "basis"),
            _token(request),
            readable(request.headers.get(HOLDER_HEADER.lower())),
            readable(request.headers.get(BUCKET_HEADER.lower())),
        )
        verdict = self._fleet.ask_size(vm, asked)
        if verdict.status != 202:
            return _error(verdict.status, verdict.reason)
        return json_response({"use": size_facts(vm.use), "observed": size_facts(vm.observed)}, 202)

    def _set_bounds(self, request: Request, vm: SimulatedVm) -> Response:
        body = _object(request)
        least, most = _size(body.get("min"), "min"), _size(body.get("max"), "max")
        if least.has_field_above(most):
            raise InvalidInput("min", "above max")
        self._fleet.set_bounds(vm, least, most)
        return json_response(self._facts(vm))

    def _set_load(self, request: Request, vm: SimulatedVm) -> Response:
        body = _object(request)
        model = self._fleet.present(vm).model
        if body.get("reset") is True:
            model.override_demand(None)
        else:
            cpu, memory = _number(body.get("cpu"), "cpu"), _number(body.get("mem_bytes"), "mem_bytes")
            model.override_demand(Demand(cpu, memory))
        return self._show(request, vm)

    def _switch_faults(self, request: Request) -> Response:
        """`{"fault": name, "on": bool, "fraction": 0..1, "vms": [keys]}`; answers what is on."""
        body = _object(request)
        try:
            fault = Fault(str(body.get("fault")))
        except ValueError as err:
            raise InvalidInput("fault", f"one of {', '.join(FAULT_EFFECTS)}") from err
        names = _names(body.get("vms", []))
        if unknown := [name for name in names if name not in self._fleet.vms]:
            return _error(404, f"no such VM: {unknown[0][:100]}")
        if body.get("on", True) is True:
            fraction = _number(body.get("fraction", 1), "fraction")
            if fraction > 1:
                raise InvalidInput("fraction", "above 1")
            self._fleet.faults.switch_on(fault, fraction=fraction, names=names)
        else:
            self._fleet.faults.switch_off(fault, names=names)
        return json_response(self._fleet.faults.facts())


def _error(status: int, text: str) -> Response:
    return json_response({"error": text}, status)


def _token(request: Request) -> int:
    token = request.headers.get(TOKEN_HEADER.lower(), "")
    if not (token.isascii() and token.isdigit() and len(token) < 16):
        raise InvalidInput(TOKEN_HEADER, "a whole number is needed")
    return int(token)


def _object(request: Request) -> dict[str, object]:
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError) as err:
        raise InvalidInput("body", "not JSON") from err
    if not isinstance(body, dict):
        raise InvalidInput("body", "not an object")
    return body


def _size(value: object, where: str) -> Resources:
    fields = [value.get("cpu_m"), value.get("mem")] if isinstance(value, dict) else []
    amounts = [field for field in fields if isinstance(field, int) and not isinstance(field, bool)]
    if len(amounts) != 2 or not all(0 < amount < _MOST for amount in amounts):
        raise InvalidInput(where, "cpu_m and mem above zero are needed")
    return resources(amounts[0], amounts[1])


def _names(value: object) -> list[str]:
    given = value if isinstance(value, list) else [None]
    names = [name for name in given if isinstance(name, str)]
    if len(names) != len(given) or len(names) > _MAX_NAMES:
        raise InvalidInput("vms", f"a list of at most {_MAX_NAMES} names is needed")
    return names


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST:
        raise InvalidInput(where, "a number from 0 on is needed")
    return float(value)
