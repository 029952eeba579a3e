"""Runners and VMs for tests of the services, with defaults that make a lively VM."""

from __future__ import annotations

from dataclasses import replace

from app.core.events import MonitorActive, PluginNewScheduler, PluginStarting, PluginSuccessful
from app.core.model import Metrics
from app.core.resources import Resources, resources
from app.ports.store import BucketName, Intent
from app.ports.vm import Address, VirtualMachine
from app.services.agent_settings import AgentSettings
from app.services.runner import Runner
from tests.core_builders import GIB, UNIT, a_config
from tests.fakes.clock import FakeClock

BUCKET = BucketName("autoscaler-bucket-00-of-01")


def some_settings(**changes: object) -> AgentSettings:
    settings = AgentSettings(
        worker="worker1",
        core=a_config(),
        poll_period_s=5.0,
        metrics_timeout_s=2.0,
        metrics_prefix="node_",
        scheduler_timeout_s=2.0,
        platform_timeout_s=10.0,
        apply_timeout_s=30.0,
        monitor_connect_timeout_s=4.0,
        monitor_response_timeout_s=5.0,
        monitor_retry_min_wait_s=5.0,
        silence_s=20.0,
        grace_s=20.0,
        compute_unit=UNIT,
    )
    return replace(settings, **changes)  # type: ignore[arg-type]


def a_virtual_machine(**changes: object) -> VirtualMachine:
    vm = VirtualMachine(
        namespace="default",
        name="db",
        uid="uid-1",
        node="node-1",
        min=resources(250, 1),
        max=resources(4_000, 16),
        use=resources(1_000, 4),
        observed=resources(1_000, 4),
        slot_bytes=GIB,
        metrics=Address("127.0.0.1", 9100),
        monitor_address=Address("127.0.0.1", 10301),
    )
    return replace(vm, **changes)  # type: ignore[arg-type]


def a_runner(
    clock: FakeClock, vm: VirtualMachine | None = None, settings: AgentSettings | None = None
) -> Runner:
    """One that is ready, with a scheduler that has granted what is in use, and an active monitor."""
    runner = Runner(vm or a_virtual_machine(), BUCKET, settings or some_settings(), clock)
    runner.is_ready = runner.has_intents = True
    use = runner.state.vm.use
    for event in (
        PluginNewScheduler(),
        MonitorActive(True),
        PluginStarting(runner.now(), use),
        PluginSuccessful(runner.now(), use, UNIT),
    ):
        assert runner.apply(event) is None
    return runner


def load_of(cpus: float, mem_gib: float = 0.5) -> Metrics:
    """A sample that asks for about so many CPUs (the target of the builders' config is 0.5)."""
    return Metrics(load1=cpus * 0.5, load5=cpus * 0.5, mem_bytes=mem_gib * GIB)


def an_intent(
    kind: str = "pause", value: str = "on", target: str = "default/db", **changes: object
) -> Intent:
    intent = Intent(
        target=target,
        kind=kind,
        value=value,
        until_ms=None,
        reason="maintenance",
        author="ada@ops",
        at_ms=1,
        intent_id=f"{kind}-{value}-{target}",
    )
    return replace(intent, **changes)  # type: ignore[arg-type]


def moved(size: Resources, cpu: int = 0, mem: int = 0) -> Resources:
    """A size changed by so many milli-vCPU and slots."""
    return resources(size.cpu + cpu, size.mem + mem)
