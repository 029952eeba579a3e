"""The resources that the API server double has, and how it words what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """One kind of objects.

    Attributes:
        has_status: whose status is changed by its subresource alone.
        is_custom: of a CRD: with `apiVersion` and `kind` in lists too.
        tells_deleted: a deletion is answered with the object, others' with a Status.
        needs_version: an update must name the version that it is based on.
        made_by_update: an update of one that is not there creates it.
    """

    name: str
    group: str
    version: str
    kind: str
    has_status: bool = False
    is_custom: bool = False
    needs_version: bool = False
    made_by_update: bool = False
    tells_deleted: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """How messages call it."""
        return f"{self.name}.{self.group}" if self.group else self.name


RESOURCES = {
    each.name: each
    for each in (
        Resource(
            "virtualmachines",
            "vm.neon.tech",
            "v1",
            "VirtualMachine",
            has_status=True,
            is_custom=True,
            needs_version=True,
        ),
        Resource("pods", "", "v1", "Pod", has_status=True, tells_deleted=True),
        Resource("events", "", "v1", "Event"),
        Resource("services", "", "v1", "Service", made_by_update=True, tells_deleted=True),
        Resource("endpointslices", "discovery.k8s.io", "v1", "EndpointSlice"),
        Resource("leases", "coordination.k8s.io", "v1", "Lease", needs_version=True, made_by_update=True),
    )
}


def resource_of(name: str) -> Resource:
    """One that is not in the table is plain."""
    return RESOURCES.get(name) or Resource(name, "", "v1", name)


class ApiError(Exception):
    """A Status answer.

    Attributes:
        details: what it is about, as far as it tells.
    """

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        self.code, self.reason, self.message, self.details = code, reason, message, details
        super().__init__(message)

    def body(self) -> Json:
        found = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        told = {"reason": self.reason, "details": self.details}
        return {**found, **{name: value for name, value in told.items() if value}}


def not_found(resource: str, name: str) -> ApiError:
    return _about(404, "NotFound", resource, name, "not found")


def exists_already(resource: str, name: str) -> ApiError:
    return _about(409, "AlreadyExists", resource, name, "already exists")


def is_changed(resource: str, name: str) -> ApiError:
    found = resource_of(resource)
    said = (
        f'Operation cannot be fulfilled on {found.qualified} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    return ApiError(409, "Conflict", said, _details(found, name, found.name))


def is_another(resource: str, name: str, asked: str, found: str, field: str = "uid") -> ApiError:
    """A precondition that does not hold."""
    word = {"uid": "UID", "resourceVersion": "ResourceVersion"}[field]
    about = resource_of(resource)
    said = (
        f'Operation cannot be fulfilled on {about.qualified} "{name}": StorageError: invalid object, '
        f"Code: 4, Key: /registry/{about.name}/{name}, ResourceVersion: 0, AdditionalErrorMsg: "
        "Precondition failed: "
        f"{word} in precondition: {asked}, {word} in object meta: {found}"
    )
    return ApiError(409, "Conflict", said, _details(about, name, about.name))


def invalid(resource: str, name: str, causes: list[Json]) -> ApiError:
    """What is wrong with an object, field by field."""
    found = resource_of(resource)
    kind = f"{found.kind}.{found.group}" if found.group else found.kind
    told = [f"{cause['field']}: {cause['message']}" for cause in causes]
    said = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    details = {**_details(found, name, found.kind), "causes": causes}
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {said}', details)


def names_no_version(resource: str, name: str) -> ApiError:
    """An update that must name the version that it is based on."""
    found = resource_of(resource)
    said = "Invalid value: 0: must be specified for an update"
    cause = {"reason": "FieldValueInvalid", "message": said, "field": "metadata.resourceVersion"}
    details = {**_details(found, name, found.name), "causes": [cause]}
    message = f'{found.qualified} "{name}" is invalid: metadata.resourceVersion: {said}'
    return ApiError(422, "Invalid", message, details)


def denial(webhook: str, why: str, code: int | None = 403) -> ApiError:
    """What a validating webhook refuses; where it tells no code that is a 400 without a reason."""
    said = f'admission webhook "{webhook}" denied the request: {why}'
    return ApiError(400, "", said) if code is None else ApiError(code, "Forbidden", said)


def _about(code: int, reason: str, resource: str, name: str, said: str) -> ApiError:
    found = resource_of(resource)
    return ApiError(code, reason, f'{found.qualified} "{name}" {said}', _details(found, name, found.name))


def _details(found: Resource, name: str, kind: str) -> Json:
    return {"name": name, **({"group": found.group} if found.group else {}), "kind": kind}
