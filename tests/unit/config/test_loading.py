"""Loading the configuration: defaults, every mistake at once, the environment, secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.config import Settings, build_settings, load_settings
from app.core.model import CoreConfig, ScalingConfig
from app.core.resources import resources
from app.errors import ConfigurationError


def problems(document: Mapping[str, object], environ: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        build_settings(document, environ or {})
    return list(caught.value.problems)


def settings(document: Mapping[str, object], environ: Mapping[str, str] | None = None) -> Settings:
    return build_settings(document, environ or {})


def test_without_a_file_the_values_of_a_real_deployment_are_in_force() -> None:
    found = load_settings(None, {})
    assert found.core_config() == CoreConfig(
        default_scaling_config=ScalingConfig(0.9, 0.75),
        platform_retry_wait=5000,
        plugin_request_tick=15000,
        plugin_retry_wait=3000,
        plugin_denied_retry_wait=2000,
        monitor_denied_downscale_cooldown=5000,
        monitor_downscale_follow_up_wait=1000,
        monitor_requested_upscale_valid_period=10000,
        monitor_retry_wait=3000,
    )
    assert (found.monitor.response_timeout_seconds, found.monitor.connection_timeout_seconds) == (5, 4)
    assert (found.metrics.port, found.scheduler.request_port, found.monitor.server_port) == (
        9100,
        10299,
        10301,
    )
    assert (found.ownership.buckets, found.ownership.lease_duration_seconds) == (16, 15)
    assert found.scaling.compute_unit.resources() == resources(250, 1)
    assert found.billing is None
    assert found.dump_state is None


def test_an_optional_section_that_is_there_takes_its_defaults() -> None:
    found = settings({"dumpState": {}, "billing": {"url": "http://sink"}})
    assert found.dump_state is not None
    assert found.billing is not None
    assert (found.dump_state.port, found.dump_state.timeout_seconds) == (10300, 5)
    assert (found.billing.collect_every_seconds, found.billing.accumulate_every_seconds) == (4, 24)


def test_every_mistake_is_told_at_once_with_its_path() -> None:
    assert problems(
        {
            "monitor": {"serverPort": 0, "responseTimeoutSeconds": "5"},
            "scaling": {"defaultConfig": {"loadAverageFractionTarget": 0, "memoryUsageFractionTarget": 1}},
            "metrics": None,
            "billing": {"maxBatchSize": 2.5},
            "nodeScheduler": {"nodes": [{"name": "a", "cpu": 2}, 3]},
            "schedular": {},
        }
    ) == [
        ".scaling.defaultConfig.loadAverageFractionTarget: must be above 0 and below 2",
        ".scaling.defaultConfig.memoryUsageFractionTarget: must be above 0 and below 1",
        ".metrics: must be an object, not null",
        ".monitor.responseTimeoutSeconds: must be a number, not text",
        ".monitor.serverPort: must not be zero",
        ".billing.url: is missing",
        ".billing.maxBatchSize: must be a whole number",
        ".nodeScheduler.nodes[0].memory: is missing",
        ".nodeScheduler.nodes[1]: must be an object, not a number",
        ".schedular: unknown field (did you mean scheduler?)",
    ]


@pytest.mark.parametrize(
    ("section", "field", "hint"),
    [
        ("monitor", "serverport", " (did you mean serverPort?)"),
        ("monitor", "server_port", " (did you mean serverPort?)"),
        ("scaling", "computUnit", " (did you mean computeUnit?)"),
        ("web", "qqqqqqqq", ""),
        ("security", "anything", ""),
    ],
)
def test_an_unknown_field_is_refused_with_the_nearest_name(section: str, field: str, hint: str) -> None:
    assert problems({section: {field: 1}}) == [f".{section}.{field}: unknown field{hint}"]


@pytest.mark.parametrize("path", ["metrics.port", "monitor.serverPort", "scheduler.requestPort"])
def test_a_port_of_others_may_not_be_zero(path: str) -> None:
    section, field = path.split(".")
    assert problems({section: {field: 0}}) == [f".{path}: must not be zero"]


def test_a_port_of_ours_may_be_zero() -> None:
    found = settings({"web": {"port": 0}, "dumpState": {"port": 0}, "nodeScheduler": {"port": 0}})
    assert (found.web.port, found.node_scheduler.port) == (0, 0)


@pytest.mark.parametrize("value", [65536, -1, 1.5, "80", True, None])
def test_what_is_no_port_is_refused(value: object) -> None:
    assert problems({"web": {"port": value}})[0].startswith(".web.port: must be a")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (0, "must not be zero"),
        (-1, "must not be negative"),
        (0.0001, "must be at least 0.001 (a millisecond)"),
        (1e300, "must be at most 31622400 (a year)"),
        (float("nan"), "must be a finite number"),
        (float("inf"), "must be a finite number"),
        (True, "must be a number, not true or false"),
        ([], "must be a number, not a list"),
    ],
)
def test_what_is_no_duration_is_refused(value: object, problem: str) -> None:
    path = ".metrics.secondsBetweenRequests"
    assert problems({"metrics": {"secondsBetweenRequests": value}}) == [f"{path}: {problem}"]


def test_a_duration_may_be_a_fraction_of_a_second() -> None:
    found = settings({"monitor": {"deniedDownscaleFollowUpWaitSeconds": 0.25}})
    assert found.core_config().monitor_downscale_follow_up_wait == 250


def test_only_the_limit_of_scheduler_requests_may_be_none() -> None:
    assert settings({"scheduler": {"requestTimeoutSeconds": 0}}).scheduler.request_timeout_seconds == 0
    assert problems({"metrics": {"requestTimeoutSeconds": 0}}) == [
        ".metrics.requestTimeoutSeconds: must not be zero"
    ]


@pytest.mark.parametrize(
    ("load", "memory", "is_right"),
    [
        (1.999, 0.999, True),
        (0.001, 0.001, True),
        (2, 0.5, False),
        (0.5, 1, False),
        (0.5, 0, False),
        (-1, 0.5, False),
    ],
)
def test_targets_lie_between_their_bounds(load: float, memory: float, is_right: bool) -> None:
    targets = {"loadAverageFractionTarget": load, "memoryUsageFractionTarget": memory}
    document = {"scaling": {"defaultConfig": targets}}
    if is_right:
        assert settings(document).core_config().default_scaling_config == ScalingConfig(load, memory)
    else:
        assert len(problems(document)) == 1


@pytest.mark.parametrize(
    ("ownership", "expected"),
    [
        (
            {"renewEverySeconds": 10},
            [".ownership.renewEverySeconds: must be below .ownership.giveUpAfterSeconds"],
        ),
        (
            {"giveUpAfterSeconds": 15},
            [".ownership.giveUpAfterSeconds: must be below .ownership.leaseDurationSeconds"],
        ),
    ],
)
def test_renewal_comes_before_giving_up_and_that_before_the_end(
    ownership: dict[str, object], expected: list[str]
) -> None:
    assert problems({"ownership": ownership}) == expected


def test_short_leases_of_a_demo_are_taken() -> None:
    short = {"leaseDurationSeconds": 3, "renewEverySeconds": 0.5, "giveUpAfterSeconds": 2}
    assert settings({"ownership": short}).ownership.lease_duration_seconds == 3


def test_a_rule_is_checked_beside_other_mistakes_but_not_on_a_value_that_is_wrong_itself() -> None:
    assert problems({"ownership": {"renewEverySeconds": 12, "buckets": 0}}) == [
        ".ownership.buckets: must not be zero",
        ".ownership.renewEverySeconds: must be below .ownership.giveUpAfterSeconds",
    ]
    assert problems({"ownership": {"renewEverySeconds": 12, "giveUpAfterSeconds": "x"}}) == [
        ".ownership.giveUpAfterSeconds: must be a number, not text"
    ]


def test_nodes_are_read_with_their_quantities() -> None:
    node = {"name": "n1", "cpu": "7500m", "memory": "32Gi", "reservedCpu": 0.5, "reservedMemory": "2Gi"}
    (found,) = settings({"nodeScheduler": {"nodes": [node]}}).node_scheduler.nodes
    assert (found.milli_cpu, found.size_bytes) == (7500, 32 << 30)
    assert (found.reserved_milli_cpu, found.reserved_bytes) == (500, 2 << 30)


def test_nodes_that_make_no_sense_are_told() -> None:
    nodes = [
        {"name": "n", "cpu": 2, "memory": "1Gi", "reservedCpu": 2},
        {"name": "n", "cpu": 2, "memory": "1Gi", "reservedMemory": "2Gi"},
    ]
    assert problems({"nodeScheduler": {"nodes": nodes}}) == [
        ".nodeScheduler.nodes[0].reservedCpu: must be below the node's cpu",
        ".nodeScheduler.nodes[1].name: another node has this name",
        ".nodeScheduler.nodes[1].reservedMemory: must be below the node's memory",
    ]


@pytest.mark.parametrize("vcpus", ["", "x", 0, "0m", -1, True, None, 513, [], "1e400"])
def test_what_is_no_unit_of_cpu_is_refused(vcpus: object) -> None:
    found = problems({"scaling": {"computeUnit": {"vCPUs": vcpus}}})
    assert [line.partition(": ")[0] for line in found] == [".scaling.computeUnit.vCPUs"]


def test_neonvm_needs_the_address_of_its_pod_and_a_node_bound_one_its_node() -> None:
    document = {"platform": {"kind": "neonvm", "nodeBound": True}}
    assert problems(document, {"K8S_POD_IP": ""}) == [
        "K8S_POD_IP: must be set with platform neonvm",
        "K8S_NODE_NAME: must be set when .platform.nodeBound is on",
    ]
    found = settings(document, {"K8S_POD_IP": "10.0.0.7", "K8S_NODE_NAME": "node-3"})
    assert found.key_prefix == "vmscaler:node-3"
    assert settings({}).key_prefix == "vmscaler"


def test_only_neonvm_is_bound_to_a_node() -> None:
    assert problems({"platform": {"nodeBound": True}}, {"K8S_NODE_NAME": "n"}) == [
        ".platform.nodeBound: is for platform neonvm only"
    ]


def test_registration_with_informants_is_off_and_can_be_switched_on() -> None:
    assert settings({}).informant.register_agents is False
    assert settings({"informant": {"register": True}}).informant.register_agents is True


@pytest.mark.parametrize(
    ("text", "ports"),
    [("20000-20002", [20000, 20001, 20002]), ("20000", [20000]), ("0", []), ("65535-65535", [65535])],
)
def test_the_ports_of_agents_are_a_range(text: str, ports: list[int]) -> None:
    assert list(settings({"informant": {"ports": text}}).informant.port_range()) == ports


@pytest.mark.parametrize(
    "text", ["", "0-5", "20001-20000", "65536", "1-65536", "a-b", "1-2-3", "-1", " 1", "１"]
)
def test_what_is_no_range_of_ports_is_refused(text: str) -> None:
    (problem,) = problems({"informant": {"ports": text}})
    assert problem.startswith(".informant.ports: must be ports")


def test_agents_ports_keep_clear_of_our_own_and_their_waits_are_in_order() -> None:
    ports = {"informant": {"register": True, "ports": "9000-9100"}}
    assert [text.partition(":")[0] for text in problems(ports)] == [".informant.ports"]
    waits = {"informant": {"retryMinWaitSeconds": 2.0, "retryMaxWaitSeconds": 1.0}}
    assert [text.partition(":")[0] for text in problems(waits)] == [".informant.retryMaxWaitSeconds"]


def test_the_environment_stands_in_for_the_file_and_is_named_when_it_is_wrong() -> None:
    found = settings({"redis": {"url": "redis://a/1"}}, {"VMSCALER_REDIS_URL": "redis://b:7/2"})
    assert found.redis.url.reveal() == "redis://b:7/2"
    assert found.sources == {".redis.url": "environment"}
    assert problems({}, {"VMSCALER_REDIS_URL": "http://b"}) == [
        ".redis.url: must begin with redis:// or rediss:// or unix:// or sentinel:// or sentinels://"
        " (from VMSCALER_REDIS_URL)"
    ]
    assert problems({"redis": 3}, {"VMSCALER_REDIS_URL": "redis://b"}) == [
        ".redis: must be an object, not a number"
    ]


def test_the_file_is_found_by_argument_first_then_by_config_path(tmp_path: Path) -> None:
    first, second = tmp_path / "one.json", tmp_path / "two.yaml"
    first.write_text(json.dumps({"web": {"port": 1111}}))
    second.write_text("web:\n  port: 2222\n")
    environ = {"CONFIG_PATH": str(second)}
    assert load_settings(str(first), environ).web.port == 1111
    assert load_settings(None, environ).web.port == 2222
    assert load_settings(None, environ).sources == {".web.port": "file"}


@pytest.mark.parametrize(
    "url",
    [
        "redis://:s3cret pass@h",
        "redis://:s3cret@h:port",
        "redis://:s3cret#x@h",
        "redis://:s3cret/x@h",
        "redis://:s3cret@",
        "redis://:s3cret@h/notanumber",
        "redis://h?password=s3cret",
        "s3cret",
        "unix://s3cret",
        "redis://:s3cret@[::1",
        "redis://:s3cret@h:0",
    ],
)
def test_a_wrong_address_is_never_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_settings({"redis": {"url": url}}, {})
    assert "s3cret" not in str(caught.value)
    assert caught.value.problems[0].startswith(".redis.url: must ") or "is not an address" in str(
        caught.value
    )
    assert caught.value.__cause__ is None


def test_a_value_in_the_wrong_place_is_never_repeated() -> None:
    document: dict[str, object] = {
        "redis": {"redis://:s3cret@h": 1, "prefix": "s3cret/", "passwordFile": ["s3cret"]},
        "platform": {"kind": "s3cret", "url": {"s3cret": 1}},
    }
    assert "s3cret" not in " ".join(problems(document))


def test_a_password_file_goes_into_the_address_and_nowhere_else(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("p@ss/w:rd\n")
    found = settings({"redis": {"url": "redis://h:1/2"}}, {"VMSCALER_REDIS_PASSWORD_FILE": str(file)})
    url = found.redis.connection_url()
    assert url.reveal() == "redis://:p%40ss%2Fw%3Ard@h:1/2"
    assert str(url) == "redis://:***@h:1/2"
    assert "p%40" not in repr(url)
    assert problems(
        {"redis": {"url": "redis://:x@h", "passwordFile": str(file)}},
    ) == [".redis.passwordFile: must not be set beside a password in .redis.url"]


@pytest.mark.parametrize("content", ["", "\n", "x" * 5000, None])
def test_a_password_file_that_holds_none_is_a_mistake_of_its_field(
    content: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_text(content)
    found = settings({"redis": {"passwordFile": str(file)}, "platform": {"tokenFile": str(file)}})
    with pytest.raises(ConfigurationError, match=r"\.redis\.passwordFile: the file"):
        found.redis.connection_url()
    with pytest.raises(ConfigurationError, match=r"\.platform\.tokenFile: the file"):
        found.platform.token()


def test_more_mistakes_than_anyone_reads_are_counted() -> None:
    found = problems({f"x{number}": 1 for number in range(150)})
    assert len(found) == 101
    assert found[-1] == "and 50 more problems"


def test_where_leases_are_may_stand_in_the_environment() -> None:
    found = settings({"ownership": {"leases": "redis"}}, {"VMSCALER_LEASES": "kubernetes"})
    assert found.ownership.leases == "kubernetes"
    assert problems({}, {"VMSCALER_LEASES": "etcd"}) != []
