from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from app.core import events
from app.core.actions import ActionSet, PluginRequest, Resize
from app.core.model import Mode
from app.core.resources import resources
from app.core.state import State
from tests.core_builders import (
    UNIT,
    a_new_state,
    a_sample,
    a_settled_state,
    a_vm,
    after,
    at,
    decide,
    granted,
    with_load,
)

IN_USE = resources(1_000, 4)
SMALL = resources(500, 2)
LARGE = resources(2_000, 8)


def a_large_wish() -> State:
    return after(a_settled_state(), with_load(1.0))


def a_small_wish() -> State:
    return after(a_settled_state(), with_load(0.25))


def test_nothing_is_asked_before_there_is_a_scheduler() -> None:
    assert decide(a_new_state()) == ActionSet(desired=IN_USE)


def test_a_new_scheduler_is_told_the_size_in_use_at_once() -> None:
    state = after(a_new_state(), events.PluginNewScheduler())
    assert decide(state).plugin == PluginRequest(None, IN_USE, None)


def test_the_scheduler_hears_from_a_vm_at_rest_once_a_tick() -> None:
    state = a_settled_state()
    assert decide(state, 4_999).plugin is None
    assert decide(state, 4_999).wait == 1
    assert decide(state, 5_000).plugin == PluginRequest(IN_USE, IN_USE, None)


def test_a_tick_tells_of_the_size_that_a_resize_in_flight_will_have() -> None:
    state = after(granted(a_large_wish(), LARGE), events.PlatformStarting(LARGE))
    ticked = replace(state, metrics=a_sample(1.0))
    assert decide(ticked, 5_000).plugin == PluginRequest(LARGE, LARGE, a_sample(1.0))


def test_an_upscale_asks_for_a_permit_first_and_for_nothing_else() -> None:
    actions = decide(a_large_wish(), 1)
    assert actions.plugin == PluginRequest(IN_USE, LARGE, a_sample(1.0))
    assert (actions.platform, actions.monitor_upscale, actions.monitor_downscale) == (None, None, None)


def test_a_permit_is_followed_by_the_platform_and_that_by_the_monitor() -> None:
    state = granted(a_large_wish(), LARGE)
    assert decide(state, 1).platform == Resize(IN_USE, LARGE)
    assert decide(state, 1).monitor_upscale is None
    state = after(state, events.PlatformStarting(LARGE), events.PlatformSuccessful())
    assert decide(state, 1).platform is None
    assert decide(state, 1).monitor_upscale == Resize(IN_USE, LARGE)


def test_a_downscale_goes_by_the_monitor_then_the_platform_then_the_scheduler() -> None:
    state = a_small_wish()
    first = decide(state, 1)
    assert first.monitor_downscale == Resize(IN_USE, SMALL)
    assert (first.plugin, first.platform) == (None, None)
    state = after(state, events.MonitorStartingDownscale(at(1), SMALL), events.MonitorDownscaleAllowed())
    second = decide(state, 2)
    assert second.platform == Resize(IN_USE, SMALL)
    assert second.plugin is None
    state = after(state, events.PlatformStarting(SMALL), events.PlatformSuccessful())
    third = decide(state, 3)
    assert third.plugin == PluginRequest(IN_USE, SMALL, a_sample(0.25))


def test_a_partial_permit_is_used_and_the_rest_is_asked_for_after_the_pause() -> None:
    asked = after(a_large_wish(), events.PluginStarting(at(0), LARGE))
    state = after(asked, events.PluginSuccessful(at(0), resources(1_500, 6), UNIT))
    early = decide(state, 3_999)
    assert early.platform == Resize(IN_USE, resources(1_500, 6))
    assert (early.plugin, early.wait) == (None, 1)
    assert any(
        "asked for 2 CPU, 8 GiB, but the permit is 1.5 CPU, 6 GiB" in reason for reason in early.reasons
    )
    assert decide(state, 4_000).plugin == PluginRequest(resources(1_500, 6), LARGE, a_sample(1.0))


def test_a_platform_is_not_asked_for_more_than_the_scheduler_is_just_being_asked_for() -> None:
    state = after(granted(a_large_wish(), LARGE), events.PluginStarting(at(1), IN_USE))
    actions = decide(state, 2)
    assert (actions.platform, actions.wait) == (None, None)
    assert any(reason.startswith("no resize to 2 CPU, 8 GiB while") for reason in actions.reasons)


@pytest.mark.parametrize(
    ("happenings", "pause", "field"),
    [
        ((events.PluginStarting(at(0), IN_USE), events.PluginFailed(at(0))), 2_000, "plugin"),
        ((events.PlatformStarting(SMALL), events.PlatformFailed(at(0))), 3_000, "platform"),
        (
            (events.MonitorStartingUpscale(at(0), LARGE), events.MonitorUpscaleFailed(at(0))),
            2_500,
            "monitor_upscale",
        ),
        (
            (events.MonitorStartingDownscale(at(0), SMALL), events.MonitorDownscaleFailed(at(0))),
            2_500,
            "monitor_downscale",
        ),
        (
            (events.MonitorStartingDownscale(at(0), UNIT), events.MonitorDownscaleDenied(at(0))),
            1_500,
            "monitor_downscale",
        ),
    ],
    ids=["plugin", "platform", "upscale", "downscale", "denied"],
)
def test_after_a_failure_or_denial_it_is_asked_again_at_the_end_of_the_pause_and_not_before(
    happenings: tuple[events.Event, ...], pause: int, field: str
) -> None:
    if field == "plugin":
        state = a_large_wish()
    elif field == "platform":
        state = granted(a_large_wish(), LARGE)
    elif field == "monitor_upscale":
        resize = (events.PlatformStarting(LARGE), events.PlatformSuccessful())
        state = after(granted(a_large_wish(), LARGE), *resize)
    else:
        state = a_small_wish()
    state = after(state, *happenings)
    before, then = decide(state, pause - 1), decide(state, pause)
    assert getattr(before, field) is None
    assert before.wait == 1
    assert any("after that" in reason for reason in before.reasons)
    assert getattr(then, field) is not None


def test_a_hundred_denials_are_no_failure_and_the_pause_holds_between_the_questions() -> None:
    state, now, asked = a_small_wish(), 0, []
    while len(asked) < 100:
        actions = decide(state, now)
        if actions.plugin is not None:
            target = actions.plugin.target
            state = after(state, events.PluginStarting(at(now), target))
            state = after(state, events.PluginSuccessful(at(now), target, UNIT))
        if actions.monitor_downscale is not None:
            asked.append(now)
            target = actions.monitor_downscale.target
            state = after(state, events.MonitorStartingDownscale(at(now), target))
            state = after(state, events.MonitorDownscaleDenied(at(now)))
        now += decide(state, now).wait or 1
    assert all(later - earlier >= 1_500 for earlier, later in pairwise(asked))
    assert (state.monitor.downscale_failed_at, state.vm.use) == (None, IN_USE)


def test_more_is_asked_for_at_once_in_the_middle_of_a_cooldown() -> None:
    state = after(
        a_small_wish(),
        events.MonitorStartingDownscale(at(0), SMALL),
        events.MonitorDownscaleDenied(at(0)),
        events.MonitorUpscaleRequested(at(10), cpu=False, memory=True),
    )
    actions = decide(state, 10)
    assert actions.plugin is not None
    assert actions.plugin.target == resources(1_250, 5)
    assert "the monitor asked for more memory than 1 CPU, 4 GiB" in actions.reasons


def test_an_upscale_planned_now_beats_a_downscale_of_the_monitor() -> None:
    state = after(a_settled_state(), events.PlatformObserved(at(0), resources(1_500, 4)))
    state = after(granted(state, resources(1_500, 4)), events.UpdatedVm(a_vm(max=resources(4_000, 2))))
    actions = decide(after(state, with_load(0.75)), 1)
    assert actions.monitor_upscale == Resize(IN_USE, resources(1_500, 4))
    assert actions.monitor_downscale is None
    assert any("told of an upscale before" in reason for reason in actions.reasons)


def test_no_downscale_is_planned_without_an_active_monitor() -> None:
    state = after(a_small_wish(), events.MonitorReset())
    actions = decide(state, 1)
    assert not actions.has_requests
    assert "no downscale without an active monitor" in actions.reasons


def test_a_maximum_lowered_below_the_size_in_use_is_a_planned_downscale_to_it() -> None:
    state = after(a_large_wish(), events.UpdatedVm(a_vm(max=SMALL)))
    assert decide(state, 1).monitor_downscale == Resize(IN_USE, SMALL)


def test_a_fixed_size_that_is_no_multiple_of_the_unit_is_never_scaled_and_says_nothing() -> None:
    size = resources(1_100, 5)
    state = after(a_settled_state(a_vm(min=size, max=size, use=size)), with_load(3.0, 9.0))
    actions = decide(state, 1)
    assert (actions.has_requests, actions.reasons, actions.wait) == (False, (), 4_999)


def test_a_permit_above_what_is_used_is_given_back() -> None:
    state = granted(after(a_settled_state(), with_load(0.5)), LARGE)
    assert decide(state, 1).plugin == PluginRequest(LARGE, IN_USE, a_sample(0.5))


@pytest.mark.parametrize("load", [0.25, 1.0])
def test_an_observed_vm_is_decided_and_explained_and_nothing_is_asked(load: float) -> None:
    scaled = after(a_settled_state(), with_load(load))
    observed = after(scaled, events.ModeChanged(Mode.OBSERVE, None))
    actions = decide(observed, 9_000)
    assert not actions.has_requests
    assert actions.wait is None
    assert actions.desired == decide(scaled, 9_000).desired != IN_USE
    assert actions.reasons[-1] == "observed only: nothing is asked of anyone"


def test_reasons_do_not_change_while_only_time_passes() -> None:
    state = after(
        a_small_wish(), events.MonitorStartingDownscale(at(0), UNIT), events.MonitorDownscaleFailed(at(0))
    )
    assert decide(state, 1).reasons == decide(state, 2_499).reasons != ()
