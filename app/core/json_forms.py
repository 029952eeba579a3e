"""VM, settings, amounts and samples as JSON, in the vectors' schema (`vectors/README.md`).

`*_to_json` and `*_from_json` are each other's inverse. Readers raise `InvalidInput` with the field's path.
"""

from __future__ import annotations

from app.core.fields import Fields
from app.core.model import CoreConfig, CoreVm, Metrics, Millis, ScalingConfig
from app.core.resources import Resources, resources

Json = dict[str, object]

_WAITS = (
    "platform_retry_wait",
    "plugin_request_tick",
    "plugin_retry_wait",
    "plugin_denied_retry_wait",
    "monitor_denied_downscale_cooldown",
    "monitor_downscale_follow_up_wait",
    "monitor_requested_upscale_valid_period",
    "monitor_retry_wait",
)


def resources_to_json(amount: Resources) -> Json:
    """`{"cpu_m", "mem"}`."""
    return {"cpu_m": amount.cpu, "mem": amount.mem}


def resources_from_json(fields: Fields) -> Resources:
    """An amount; zero is allowed, since scripts hold bad permits on purpose."""
    return resources(fields.integer("cpu_m"), fields.integer("mem"))


def metrics_to_json(metrics: Metrics) -> Json:
    """`{"load1", "load5", "mem_bytes"}`, as they came."""
    return {"load1": metrics.load1, "load5": metrics.load5, "mem_bytes": metrics.mem_bytes}


def metrics_from_json(fields: Fields) -> Metrics:
    """A sample of finite numbers; whether it can be believed is the core's business."""
    return Metrics(fields.number("load1"), fields.number("load5"), fields.number("mem_bytes"))


def scaling_to_json(scaling: ScalingConfig) -> Json:
    """Both targets."""
    return {
        "load_average_fraction_target": scaling.load_average_fraction_target,
        "memory_usage_fraction_target": scaling.memory_usage_fraction_target,
    }


def scaling_from_json(fields: Fields) -> ScalingConfig:
    """Both targets, above 0."""
    return ScalingConfig(
        fields.positive("load_average_fraction_target"), fields.positive("memory_usage_fraction_target")
    )


def vm_to_json(vm: CoreVm) -> Json:
    """The vectors' form, with name and namespace."""
    return {
        "name": vm.name,
        "namespace": vm.namespace,
        "cpu_m": {"min": vm.min.cpu, "use": vm.use.cpu, "max": vm.max.cpu},
        "mem": {"min": vm.min.mem, "use": vm.use.mem, "max": vm.max.mem},
        "slot_bytes": vm.slot_bytes,
        "scaling_config": None if vm.scaling_config is None else scaling_to_json(vm.scaling_config),
    }


def vm_from_json(fields: Fields) -> CoreVm:
    """A VM; name and namespace may be missing, bounds may be in any order."""
    cpu, mem = fields.inner("cpu_m"), fields.inner("mem")
    scaling = fields.optional("scaling_config")
    return CoreVm(
        name=fields.text("name") if fields.has("name") else "",
        namespace=fields.text("namespace") if fields.has("namespace") else "",
        min=resources(cpu.integer("min"), mem.integer("min")),
        max=resources(cpu.integer("max"), mem.integer("max")),
        use=resources(cpu.integer("use"), mem.integer("use")),
        slot_bytes=fields.integer("slot_bytes", lowest=1),
        scaling_config=None if scaling is None else scaling_from_json(scaling),
    )


def config_to_json(config: CoreConfig) -> Json:
    """Targets, and waits with `_ms` at the end of their names."""
    waits = {f"{name}_ms": getattr(config, name) for name in _WAITS}
    return {"default_scaling_config": scaling_to_json(config.default_scaling_config), **waits}


def config_from_json(fields: Fields) -> CoreConfig:
    """Settings; a wait of 0 is allowed."""
    waits = {name: Millis(fields.integer(f"{name}_ms")) for name in _WAITS}
    scaling = scaling_from_json(fields.inner("default_scaling_config"))
    return CoreConfig(default_scaling_config=scaling, **waits)
