"""Scaling events as sinks and webhooks get them: what happened to a VM's size, desired against actual."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.resources import Resources
from app.protocols.scaling_event import SIZES
from app.protocols.webhook import Value
from app.services.runner import Runner
from app.services.usage_events import moment_text
from app.services.wording import size_text

AUDIT_KINDS: Mapping[str, str] = {
    "upscale": "upscale",
    "downscale": "downscale",
    "observed": "changed",
    "denied": "denied",
    "permit_refused": "permit_refused",
    "failed": "failed",
    "not_applied": "not_applied",
}
"""Entries of the audit trail that are told, and as what."""


@dataclass(frozen=True, slots=True)
class ScalingEvent:
    """One event.

    Attributes:
        facts: as JSON objects have them.
        text: the same as a sentence.
    """

    facts: Mapping[str, object]
    text: str

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return str(self.facts["kind"])

    @property
    def event_id(self) -> str:
        """The same at each delivery."""
        return str(self.facts["idempotency_key"])

    def encode(self) -> bytes:
        """For sinks, and for webhooks without a template."""
        return json.dumps(self.facts, separators=(",", ":")).encode()

    def values(self) -> dict[str, Value]:
        """For templates."""
        found: dict[str, Value] = {}
        for name, value in self.facts.items():
            if name in SIZES:
                size = value if isinstance(value, dict) else {"cpu_m": 0, "memory_bytes": 0}
                found |= {f"{name}_{what}": amount for what, amount in size.items()}
            else:
                found[name] = None if value is None else str(value)
        return found | {"id": self.event_id, "text": self.text}


def make_event(
    runner: Runner,
    kind: str,
    why: str,
    *,
    now_ms: int,
    state: str | None = None,
    sizes: tuple[Resources | None, Resources | None] = (None, None),
) -> ScalingEvent:
    """An event about a VM as it is now.

    Args:
        state: of a notice: `began` or `ended`.
        sizes: from and to.
    """
    vm, moment = runner.vm, moment_text(now_ms * 1000)
    actual = runner.state.vm.use
    all_sizes = (*sizes, runner.decided.desired or actual, actual)
    facts: dict[str, object] = {
        "idempotency_key": f"{moment}-{uuid.uuid4().hex}",
        "kind": kind,
        "state": state,
        "time": moment,
        "vm": vm.key,
        "namespace": vm.namespace,
        "name": vm.name,
        "uid": vm.uid,
        "endpoint_id": vm.endpoint_id,
        "node": vm.node,
        **{name: _size(size, vm.slot_bytes) for name, size in zip(SIZES, all_sizes, strict=True)},
        "why": why,
        "worker": runner.settings.worker,
    }
    return ScalingEvent(facts, _text(runner, kind, state, sizes, why))


def _size(size: Resources | None, slot_bytes: int) -> dict[str, int] | None:
    return None if size is None else {"cpu_m": size.cpu, "memory_bytes": size.mem * slot_bytes}


def _text(
    runner: Runner,
    kind: str,
    state: str | None,
    sizes: tuple[Resources | None, Resources | None],
    why: str,
) -> str:
    what = kind.replace("_", " ") + ("" if state is None else f" ({state})")
    known = [size_text(size, runner.vm.slot_bytes) for size in sizes if size is not None]
    span = f" {' to '.join(known)}" if known else ""
    return f"{runner.key}: {what}{span}" + (f": {why}" if why else "")
