"""A bucket's lease as a `coordination.k8s.io/v1` Lease: its name, what it says, what is written to it.

The holder is `.spec.holderIdentity` (`<pod>_<ip>`); its agentID and fencing token, for which a Lease has no
field, are annotations. Times in the object are for people: nobody decides by them. Fields that are not ours
are sent back as they were read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import InvalidInput
from app.protocols.object_fields import Object, inner

API = "/apis/coordination.k8s.io/v1"
FLEET_LABEL = "vmscaler/fleet"
AGENT_ANNOTATION = "vmscaler/agent"
TOKEN_ANNOTATION = "vmscaler/token"  # noqa: S105 - a fencing token is no secret

DEFAULT_FLEET = "vmscaler"
"""The fleet whose objects are named as its buckets are."""

MAX_TRANSITIONS = 2**31 - 1
"""An int32; the API server refuses more."""

MAX_TOKEN = 2**53 - 2**40
"""Above Redis' time in ms for 200,000 years; Redis counts exactly up to 2^53."""

MAX_DURATION_S = 86_400
"""A lease that says that it lasts longer is none of ours."""

MAX_IDENTITY = 512
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_FLEET = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BucketLease:
    """What a Lease says.

    Attributes:
        identity: of the holder; "" when it is free.
        agent_id: the holder's; its identity where another program has written the Lease.
        token: the last fencing token that the object tells, 0 for none.
        transitions: how often it has changed hands.
        duration_s: how long the holder says that it lasts, 0 when it says nothing.
        acquired, renewed: RFC 3339, as they stand there; "" for none.
    """

    identity: str = ""
    agent_id: str = ""
    token: int = 0
    transitions: int = 0
    duration_s: int = 0
    acquired: str = ""
    renewed: str = ""

    @property
    def is_free(self) -> bool:
        """Whether it was released; one whose holder was taken away by hand still has its agentID."""
        return not self.identity and not self.agent_id

    @property
    def highest(self) -> int:
        """What a new token has to be above, as far as this object knows."""
        return max(self.token, self.transitions)

    @property
    def stamp(self) -> tuple[str, str, int, int, str]:
        """Another one means: it was renewed, or has changed hands."""
        return self.identity, self.agent_id, self.token, self.transitions, self.renewed


def fleet_name(prefix: str) -> str:
    """A fleet's name for labels and names of objects: its prefix in Redis, if that can be one.

    At most 30 characters, beginning with a letter; different prefixes have different ones.
    """
    if _FLEET.fullmatch(prefix):
        return prefix
    digest = hashlib.sha256(prefix.encode()).hexdigest()[:8]
    plain = re.sub(r"[^a-z0-9]+", "-", prefix.lower())[:18].strip("-")
    return f"f-{plain}-{digest}" if not plain[:1].isalpha() else f"{plain}-{digest}"


def object_name(bucket: str, fleet: str) -> str:
    """The name of a bucket's objects, at most 63 characters: the bucket's own in the default fleet."""
    return bucket if fleet == DEFAULT_FLEET else f"{fleet}-{bucket}"


def read_lease(item: Object) -> BucketLease:
    """What the object says.

    Raises:
        InvalidInput: a field is not what it can be; `where` is its path.
    """
    spec = _object(item, "spec", ".spec")
    metadata = _object(item, "metadata", ".metadata")
    annotations = _object(metadata, "annotations", ".metadata.annotations")
    identity = _text(spec, "holderIdentity", ".spec.holderIdentity")
    where = f".metadata.annotations[{AGENT_ANNOTATION}]"
    return BucketLease(
        identity=identity,
        agent_id=_text(annotations, AGENT_ANNOTATION, where) or identity,
        token=_token(annotations),
        transitions=_number(spec, "leaseTransitions", MAX_TRANSITIONS),
        duration_s=_number(spec, "leaseDurationSeconds", MAX_DURATION_S),
        acquired=_time(spec, "acquireTime"),
        renewed=_time(spec, "renewTime"),
    )


def new_lease(name: str, namespace: str) -> dict[str, Any]:
    """An object that is not there yet."""
    return {"metadata": {"name": name, "namespace": namespace}}


def with_lease(item: Object, lease: BucketLease, fleet: str) -> dict[str, Any]:
    """The object that says this; a free lease has no agentID and an empty holder, as others write it."""
    metadata = inner(item, "metadata")
    annotations = dict(inner(metadata, "annotations"))
    annotations.pop(AGENT_ANNOTATION, None)
    annotations[TOKEN_ANNOTATION] = str(lease.token)
    if lease.identity:
        annotations[AGENT_ANNOTATION] = lease.agent_id
    labels = {**inner(metadata, "labels"), FLEET_LABEL: fleet}
    spec = {
        **inner(item, "spec"),
        "holderIdentity": lease.identity,
        "leaseDurationSeconds": max(lease.duration_s, 1),
        "leaseTransitions": lease.transitions,
        "acquireTime": lease.acquired or None,
        "renewTime": lease.renewed or None,
    }
    # The items of a list do not say what they are.
    return {
        **item,
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {**metadata, "labels": labels, "annotations": annotations},
        "spec": spec,
    }


def _object(value: Object, name: str, where: str) -> Mapping[str, object]:
    if value.get(name) is not None and not isinstance(value[name], dict):
        raise InvalidInput(where, "must be an object")
    return inner(value, name)


def _text(value: Object, name: str, where: str) -> str:
    found = value.get(name)
    if found is None:
        return ""
    if not isinstance(found, str) or len(found) > MAX_IDENTITY or not found.isprintable():
        raise InvalidInput(where, f"must be printable text of at most {MAX_IDENTITY} characters")
    return found


def _time(spec: Object, name: str) -> str:
    found = spec.get(name)
    if found is None or found == "":
        return ""
    if not isinstance(found, str) or not _TIME.fullmatch(found):
        raise InvalidInput(f".spec.{name}", "must be a time such as 2026-01-31T12:00:00.000000Z")
    return found


def _number(spec: Object, name: str, highest: int) -> int:
    found = spec.get(name)
    if found is None:
        return 0
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= highest:
        raise InvalidInput(f".spec.{name}", f"must be a whole number from 0 to {highest}")
    return found


def _token(annotations: Object) -> int:
    found = annotations.get(TOKEN_ANNOTATION)
    if found is None:
        return 0
    is_number = isinstance(found, str) and found.isascii() and found.isdigit() and len(found) <= 16
    if not is_number or int(str(found)) > MAX_TOKEN:
        raise InvalidInput(
            f".metadata.annotations[{TOKEN_ANNOTATION}]", f"must be a whole number of at most {MAX_TOKEN}"
        )
    return int(str(found))
