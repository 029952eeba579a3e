"""`vmscaler config check|show|reference`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.root import run
from app.config.reference import reference_page

VARIABLES = (
    "CONFIG_PATH",
    "K8S_POD_IP",
    "K8S_NODE_NAME",
    "VMSCALER_REDIS_URL",
    "VMSCALER_REDIS_PASSWORD_FILE",
)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_a_right_file_is_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("monitor: {serverPort: 10301}\n")
    assert run(["config", "check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: ok\n"


def test_all_mistakes_of_a_file_are_listed_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"monitor": {"serverPort": 0}, "redis": {"url": "redis://:s3cret@h:x"}, "wab": {}}')
    assert run(["config", "check", str(file)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        ".monitor.serverPort: must not be zero",
        ".redis.url: is not an address: its host or port can't be read",
        ".wab: unknown field (did you mean web?)",
    ]


def test_a_file_that_is_no_json_is_a_mistake_and_one_that_is_not_there_has_its_own_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.json"
    file.write_text("{")
    assert run(["config", "check", str(file)]) == 1
    assert capsys.readouterr().out.startswith("not JSON: line 1, column 2")
    assert run(["config", "check", str(tmp_path / "none")]) == 2
    assert (
        capsys.readouterr().err
        == f"vmscaler: {tmp_path}/none: the file can't be read: No such file or directory\n"
    )


def test_the_values_in_force_are_shown_with_their_source_and_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"web": {"port": 0}, "dumpState": {}, "billing": {"url": "http://u:s3cret@sink/x"}}')
    monkeypatch.setenv("VMSCALER_REDIS_URL", "redis://:s3cret@h:6380/1")
    assert run(["--config", str(file), "config", "show"]) == 0
    out = capsys.readouterr().out
    assert "s3cret" not in out
    lines = {" ".join(line.split()) for line in out.splitlines()}
    assert {
        'url: "redis://:***@h:6380/1" # environment',
        'url: "http://u:***@sink/x" # file',
        "port: 0 # file",
        "port: 10300 # default",
        "secondsBetweenRequests: 5 # default",
    } <= lines


def test_the_values_are_shown_as_json_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("nodeScheduler:\n  nodes: [{name: n, cpu: 500m, memory: 1Gi}]\n")
    monkeypatch.setenv("CONFIG_PATH", str(file))
    assert run(["config", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["values"]["nodeScheduler"]["nodes"] == [
        {"name": "n", "cpu": "500m", "memory": "1Gi", "reservedCpu": 0, "reservedMemory": 0}
    ]
    assert shown["sources"][".nodeScheduler.nodes[0].cpu"] == "file"
    assert shown["sources"][".nodeScheduler.nodes[0].reservedCpu"] == "default"


def test_a_wrong_configuration_is_one_line_for_every_other_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"monitor": {"serverPort": 0}, "wab": {}}')
    assert run(["--config", str(file), "config", "show"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"vmscaler: {file}: .monitor.serverPort: must not be zero; .wab: unknown field (did you mean web?)\n"
    )


def test_the_reference_names_every_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "reference"]) == 0
    out = capsys.readouterr().out
    assert out == reference_page()
    assert "| `computeUnit.vCPUs` |" in out
    assert "| `nodes[].reservedMemory` |" in out


def test_an_agents_configuration_is_printed_as_ours_and_the_rest_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "agent-config.json"
    file.write_text('{"monitor": {"responseTimeout": "5s"}, "metrics": {"lfc": {"port": 1}}}')
    assert run(["config", "import", str(file)]) == 0
    printed = capsys.readouterr()
    assert printed.out == 'monitor:\n  responseTimeoutSeconds: 5\nplatform:\n  kind: "neonvm"\n'
    assert printed.err == "left out: .metrics.lfc: targets from a file cache's metrics are not supported\n"
    ours = tmp_path / "ours.yaml"
    ours.write_text(printed.out)
    assert run(["config", "import", str(ours)]) == 0


def test_an_agents_configuration_that_is_not_valid_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "agent-config.json"
    file.write_text('{"monitor": {"serverPort": 0}}')
    assert run(["config", "import", str(file)]) == 1
    assert ".monitor.serverPort: must not be zero" in capsys.readouterr().err
