"""The last decision of a VM in a sentence: the arithmetic that led, then what stands in its way.

Such as `load1 2.10 / 0.9 = 2.33 CPUs → 2.5 CPU; the permit is 2 CPU, 8 GiB: not asked up beyond it`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.core.decide import next_actions
from app.core.goal import Desired, desired_resources
from app.core.model import Metrics, Millis
from app.core.reasons import OBSERVED
from app.core.resources import Resources
from app.core.state import State
from app.services.wording import bytes_text, cpu_text, size_text

_WISH = "wants "
"""How the core's reason begins that repeats the arithmetic."""

BOUNDS = ("its maximum", "its minimum")
"""What has cut a goal from above and from below, as a rule."""


def why_text(state: State, decided: Millis, reasons: Sequence[str], by_hand: str = "") -> str:
    """The sentence for what was decided at `decided`, with the gravest of the recorded reasons.

    Args:
        by_hand: the operator's word that has fixed the size, in front of everything; empty where none has.
    """
    goal = desired_resources(state, decided)
    obstacle = _gravest(state, decided, reasons)
    words = BOUNDS if not by_hand else ("by hand", "by hand")
    said = [by_hand, _arithmetic(state, goal, words), obstacle]
    return "; ".join(text for text in said if text)


def owners_reasons(state: State, decided: Millis, reasons: Sequence[str]) -> tuple[str, ...]:
    """Of the recorded reasons those that the core didn't give: a pause, a migration, the owner's caution."""
    said = set(next_actions(state, decided).reasons)
    return tuple(dict.fromkeys(reason for reason in reasons if reason not in said))


def _gravest(state: State, decided: Millis, reasons: Sequence[str]) -> str | None:
    """The owner's word goes before the core's; of the core's the first is the nearest to the goal."""
    told = [reason for reason in reasons if reason != OBSERVED and not reason.startswith(_WISH)]
    if not told:
        return None
    return next(iter(owners_reasons(state, decided, told)), told[0])


def _arithmetic(state: State, goal: Desired, bounds: tuple[str, str]) -> str:
    slot = state.vm.slot_bytes
    if goal.unit is None:
        return f"no scheduler has told the compute unit yet: stays at {size_text(goal.resources, slot)}"
    if state.metrics is None:
        return f"no sample yet: {size_text(goal.resources, slot)}"
    if (goal.cpu_units or 0) >= (goal.mem_units or 0):
        return _led_by_load(state, state.metrics, goal, bounds)
    return _led_by_memory(state, state.metrics, goal, bounds)


def _led_by_load(state: State, metrics: Metrics, goal: Desired, bounds: tuple[str, str]) -> str:
    target = state.scaling.load_average_fraction_target
    cpus = metrics.load1 / target
    to = cpu_text(goal.resources.cpu)
    bound = _bound(goal, lambda size: size.cpu, bounds)
    return f"load1 {metrics.load1:.2f} / {target:g} = {cpus:.2f} CPUs → {to} CPU{bound}"


def _led_by_memory(state: State, metrics: Metrics, goal: Desired, bounds: tuple[str, str]) -> str:
    target = state.scaling.memory_usage_fraction_target
    needed = bytes_text(metrics.mem_bytes / target)
    to = bytes_text(goal.resources.mem * state.vm.slot_bytes)
    bound = _bound(goal, lambda size: size.mem, bounds)
    return f"memory {bytes_text(metrics.mem_bytes)} / {target:g} = {needed} → {to}{bound}"


def _bound(goal: Desired, field: Callable[[Resources], int], bounds: tuple[str, str]) -> str:
    """Which of the VM's bounds cut the goal, if one did."""
    if goal.unclamped is None or goal.bounded is None or goal.resources != goal.bounded:
        return ""
    wanted, kept = field(goal.unclamped), field(goal.bounded)
    high, low = bounds
    return "" if wanted == kept else f" ({high})" if wanted > kept else f" ({low})"
