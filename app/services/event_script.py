"""Event scripts in the vectors' schema (`vectors/README.md`), read and checked as a whole before they run.

What is wrong is told by its path, such as `steps[3].event.permit.cpu_m`. Unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from app.core import events
from app.core.events import Event
from app.core.fields import Fields
from app.core.json_forms import config_from_json, metrics_from_json, resources_from_json, vm_from_json
from app.core.model import Millis, Mode
from app.core.resources import Resources
from app.core.snapshot import from_snapshot
from app.core.state import State, initial_state
from app.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a script.

    Attributes:
        op: the event's name in the script.
        event: None for `next`, which only asks.
        expect: the recorded answer; None where there is none.
    """

    op: str
    now: Millis
    event: Event | None
    expect: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Script:
    """A whole script; `initial` is the state after its first step, `new`."""

    script_id: str
    initial: State
    steps: tuple[Step, ...]


_Parser = Callable[[Fields, Millis], Event | None]


def read_script(value: object) -> Script:
    """Check decoded JSON and turn it into a script.

    Raises:
        InvalidInput: not a script; names the first field that is wrong. Nothing of it has been run.
    """
    fields = Fields(value)
    script_id = fields.text("id")
    items = fields.items("steps")
    if not items:
        raise InvalidInput("steps", "must begin with an event `new`")
    first = Fields(items[0], "steps[0]")
    now = Millis(first.inner("event").integer("now_ms"))
    initial = _read_new(first.inner("event"), now)
    steps = [Step("new", now, None, _expect(first))]
    for index, item in enumerate(items[1:], start=1):
        step = _read_step(Fields(item, f"steps[{index}]"), now)
        now = step.now
        steps.append(step)
    return Script(script_id, initial, tuple(steps))


def read_event(event: Fields) -> Event | None:
    """One event that is not `new`; None for `next`.

    Raises:
        InvalidInput: not an event, or none that is known.
    """
    op = event.text("op")
    parse = _PARSERS.get(op)
    if parse is None:
        known = "`new` is only the first event" if op == "new" else "is not an event that is known"
        raise InvalidInput(event.at("op"), known)
    return parse(event, Millis(event.integer("now_ms")))


def _read_new(event: Fields, now: Millis) -> State:
    if event.text("op") != "new":
        raise InvalidInput(event.at("op"), "the first event must be `new`")
    vm, config = vm_from_json(event.inner("vm")), config_from_json(event.inner("config"))
    if not event.has("snapshot"):
        return initial_state(vm, config)
    snapshot = event.value("snapshot")
    if not isinstance(snapshot, dict):
        raise InvalidInput(event.at("snapshot"), "must be an object")
    try:
        state = from_snapshot(snapshot, now)
    except InvalidInput as err:
        raise InvalidInput(event.at(f"snapshot.{err.where}"), err.problem) from err
    return replace(state, vm=replace(vm, use=state.vm.use), config=config)


def _read_step(step: Fields, last: Millis) -> Step:
    event = step.inner("event")
    op = event.text("op")
    now = Millis(event.integer("now_ms"))
    if now < last:
        raise InvalidInput(event.at("now_ms"), f"goes back from {last} to {now}")
    return Step(op, now, read_event(event), _expect(step))


def _expect(step: Fields) -> Mapping[str, object] | None:
    if not step.has("expect"):
        return None
    value = step.value("expect")
    if not isinstance(value, dict):
        raise InvalidInput(step.at("expect"), "must be an object")
    return value


def _amount(event: Fields, name: str = "resources") -> Resources:
    return resources_from_json(event.inner(name))


def _metrics(event: Fields, now: Millis) -> Event:
    is_forgotten = event.value("metrics") is None
    return events.MetricsArrived(None if is_forgotten else metrics_from_json(event.inner("metrics")))


def _mode(event: Fields, now: Millis) -> Event:
    text = event.text("mode")
    if text not in (Mode.SCALE, Mode.OBSERVE):
        raise InvalidInput(event.at("mode"), "must be 'scale' or 'observe'")
    unit = event.optional("compute_unit")
    return events.ModeChanged(Mode(text), None if unit is None else resources_from_json(unit))


_PARSERS: Mapping[str, _Parser] = {
    "next": lambda event, now: None,
    "updated_vm": lambda event, now: events.UpdatedVm(vm_from_json(event.inner("vm"))),
    "metrics": _metrics,
    "mode": _mode,
    "plugin.new_scheduler": lambda event, now: events.PluginNewScheduler(),
    "plugin.gone": lambda event, now: events.PluginGone(),
    "plugin.starting": lambda event, now: events.PluginStarting(now, _amount(event)),
    "plugin.failed": lambda event, now: events.PluginFailed(now),
    "plugin.success": lambda event, now: events.PluginSuccessful(
        now, _amount(event, "permit"), _amount(event, "compute_unit")
    ),
    "monitor.reset": lambda event, now: events.MonitorReset(),
    "monitor.active": lambda event, now: events.MonitorActive(event.boolean("active")),
    "monitor.upscale_requested": lambda event, now: events.MonitorUpscaleRequested(
        now, event.boolean("cpu"), event.boolean("memory")
    ),
    "monitor.starting_upscale": lambda event, now: events.MonitorStartingUpscale(now, _amount(event)),
    "monitor.starting_downscale": lambda event, now: events.MonitorStartingDownscale(now, _amount(event)),
    "monitor.upscale_ok": lambda event, now: events.MonitorUpscaleSuccessful(),
    "monitor.upscale_failed": lambda event, now: events.MonitorUpscaleFailed(now),
    "monitor.downscale_allowed": lambda event, now: events.MonitorDownscaleAllowed(),
    "monitor.downscale_denied": lambda event, now: events.MonitorDownscaleDenied(now),
    "monitor.downscale_failed": lambda event, now: events.MonitorDownscaleFailed(now),
    "platform.starting": lambda event, now: events.PlatformStarting(_amount(event)),
    "platform.success": lambda event, now: events.PlatformSuccessful(),
    "platform.failed": lambda event, now: events.PlatformFailed(now),
    "platform.observed": lambda event, now: events.PlatformObserved(now, _amount(event)),
}
