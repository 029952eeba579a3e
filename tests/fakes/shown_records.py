"""Records as the real owner writes them: a runner that can be led into any situation."""

from __future__ import annotations

from dataclasses import replace

from app.core.events import PluginNewScheduler, PluginStarting, PluginSuccessful
from app.core.model import CoreConfig, Metrics, Millis, ScalingConfig
from app.core.resources import Resources, resources
from app.ports.vm import MonitorPolicy, VirtualMachine, VmKey
from app.services.agent_settings import AgentSettings
from app.services.record import build_record
from app.services.runner import Runner
from tests.fakes.shown_fleet import ShownFleet, bucket_of
from tests.service_builders import some_settings

GIB = 1 << 30
UNIT = resources(250, 1)

CORE = CoreConfig(
    default_scaling_config=ScalingConfig(0.9, 0.75),
    platform_retry_wait=Millis(5_000),
    plugin_request_tick=Millis(15_000),
    plugin_retry_wait=Millis(3_000),
    plugin_denied_retry_wait=Millis(2_000),
    monitor_denied_downscale_cooldown=Millis(5_000),
    monitor_downscale_follow_up_wait=Millis(1_000),
    monitor_requested_upscale_valid_period=Millis(10_000),
    monitor_retry_wait=Millis(3_000),
)


def settings(worker: str) -> AgentSettings:
    return some_settings(worker=worker, core=CORE)


def virtual_machine(key: str, use: Resources | None = None) -> VirtualMachine:
    namespace, _, name = key.partition("/")
    size = use or resources(1000, 4)
    return VirtualMachine(
        namespace=namespace,
        name=name,
        uid=f"uid-{name}",
        node="node-1",
        min=resources(250, 1),
        max=resources(4000, 16),
        use=size,
        observed=size,
        slot_bytes=GIB,
        monitor=MonitorPolicy.NONE,
    )


def runner(fleet: ShownFleet, key: str, *, worker: str = "w1", vm: VirtualMachine | None = None) -> Runner:
    """A VM that its scheduler has just given the permit for what it uses."""
    vm = vm or virtual_machine(key)
    made = Runner(vm, bucket_of(VmKey(key)), settings(worker), fleet)
    made.is_ready = made.has_intents = True
    permit(made, vm.use, vm.use)
    return made


def permit(made: Runner, asked: Resources, granted: Resources) -> None:
    """The scheduler was asked and has answered."""
    if not made.state.plugin.alive:
        made.apply(PluginNewScheduler())
    made.apply(PluginStarting(made.now(), asked))
    made.apply(PluginSuccessful(made.now(), granted, UNIT))


def sample(made: Runner, load1: float, mem_gib: float) -> None:
    """A poll brought this; the core is asked."""
    made.take_sample(Metrics(load1, load1 / 2, mem_gib * GIB))
    made.decide()


def show(fleet: ShownFleet, made: Runner, **changes: object) -> VmKey:
    """Commit the runner's record, with some fields as the test wants them."""
    made.counters = replace(made.counters, upscales=3, downscales=2)
    return fleet.add({**build_record(made), **changes})
