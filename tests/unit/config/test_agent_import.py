"""Configurations of the NeonVM autoscaler-agent, brought to ours."""

from __future__ import annotations

from typing import Any

import pytest

from app.config import build_settings
from app.config.agent_import import config_of, import_agent_config
from app.errors import ConfigurationError

DEPLOYED: dict[str, Any] = {
    "scaling": {
        "requestTimeoutSeconds": 10,
        "retryFailedRequestSeconds": 5,
        "defaultConfig": {"loadAverageFractionTarget": 0.9, "memoryUsageFractionTarget": 0.75},
    },
    "monitor": {"serverPort": 10301, "responseTimeoutSeconds": 5, "connectionTimeoutSeconds": 4},
    "metrics": {"port": 9100, "loadMetricPrefix": "host_", "secondsBetweenRequests": 5},
    "scheduler": {"schedulerName": "autoscale-scheduler", "requestPort": 10299},
    "dumpState": {"port": 10300, "timeoutSeconds": 5},
}


def test_names_that_we_share_are_kept_and_are_valid() -> None:
    found = import_agent_config(DEPLOYED)
    assert found.left_out == []
    assert found.values == {**DEPLOYED, "platform": {"kind": "neonvm"}}
    settings = build_settings(found.values, {"K8S_POD_IP": "127.0.0.1"})
    assert settings.metrics.load_metric_prefix == "host_"
    assert settings.dump_state is not None


@pytest.mark.parametrize(
    ("text", "seconds"), [("5s", 5), ("1m30s", 90), ("500ms", 0.5), ("1.5h", 5400), ("0s", 0)]
)
def test_durations_as_text_become_seconds(text: str, seconds: float) -> None:
    found = import_agent_config({"monitor": {"responseTimeout": text}})
    assert found.values["monitor"] == {"responseTimeoutSeconds": seconds}


@pytest.mark.parametrize("text", ["5", "five", "-5s", "5s ", "5 s", "s", 5, "1" * 70 + "s"])
def test_what_is_no_duration_is_left_out(text: object) -> None:
    found = import_agent_config({"monitor": {"responseTimeout": text}})
    assert found.left_out == [(".monitor.responseTimeout", "no duration such as 5s or 1m30s")]


@pytest.mark.parametrize("name", ["scaling", "monitor", "neonvm"])
def test_a_section_that_is_no_object_is_told_as_that(name: str) -> None:
    assert import_agent_config({name: 5}).left_out == [(f".{name}", "must be an object")]


def test_values_that_later_versions_moved_come_back_to_their_first_place() -> None:
    found = import_agent_config(
        {
            "neonvm": {"requestTimeoutSeconds": 8, "retryFailedRequestSeconds": 6},
            "scaling": {"requestTimeoutSeconds": 10},
            "metrics": {"system": {"port": 9101}, "lfc": {"port": 9399}},
            "billing": {"cpuMetricName": "cpu", "clients": {"http": {"url": "http://b"}, "s3": {}}},
        }
    )
    assert found.values["scaling"] == {"requestTimeoutSeconds": 10, "retryFailedRequestSeconds": 6}
    assert found.values["metrics"] == {"port": 9101}
    assert found.values["billing"] == {"cpuMetricName": "cpu", "url": "http://b"}
    assert [path for path, _ in found.left_out] == [".metrics.lfc", ".billing.clients.s3"]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"monitor": {"maxFailedRequestRate": {"threshold": 1}}}, ".monitor.maxFailedRequestRate"),
        (
            {"scaling": {"defaultConfig": {"enableLFCMetrics": True}}},
            ".scaling.defaultConfig.enableLFCMetrics",
        ),
        ({"scaling": {"computeUnit": {"vCPUs": "250m", "mem": "1Gi"}}}, ".scaling.computeUnit"),
        ({"informant": {"serverPort": 10301}}, ".informant"),
        ({"whatever": [1]}, ".whatever"),
    ],
)
def test_what_has_no_place_is_told_with_its_path(document: dict[str, Any], path: str) -> None:
    found = import_agent_config(document)
    assert [each for each, _ in found.left_out] == [path]
    assert all(why for _, why in found.left_out)


def test_null_is_nothing() -> None:
    assert import_agent_config({"billing": None, "dumpState": None}).values == {
        "platform": {"kind": "neonvm"}
    }


def test_a_config_map_is_opened() -> None:
    held = {"kind": "ConfigMap", "data": {"config.json": '{"scheduler": {"schedulerName": "s"}}'}}
    assert config_of(held, "f") == {"scheduler": {"schedulerName": "s"}}
    assert config_of(DEPLOYED, "f") == DEPLOYED


@pytest.mark.parametrize("data", [None, {}, {"config.json": 3}])
def test_a_config_map_without_the_file_is_refused(data: object) -> None:
    with pytest.raises(ConfigurationError, match=r"\.data: this ConfigMap has no config\.json"):
        config_of({"kind": "ConfigMap", "data": data}, "f")
