"""`vmscaler simulate` as an operator uses it."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from app.cli.root import run
from tests.what_if_builders import write_trace

VALUES = [5.0] * 4 + [70.0] * 6 + [30.0] * 6 + [99.0] * 3 + [4.0] * 8


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return write_trace(tmp_path / "load.csv", VALUES)


def simulate(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    assert run(["simulate", *arguments]) == status
    said = capsys.readouterr()
    return said.out, said.err


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    out, _ = simulate(capsys, *arguments, "--json")
    value: dict[str, Any] = json.loads(out)
    return value


def test_the_table_has_the_costs_and_the_shortages(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = simulate(capsys, "--trace", trace)
    for line in ("CPU-hours allocated", "fixed at the maximum", "clairvoyant least", "longest shortage"):
        assert line in out
    assert err == ""


def test_the_json_holds_what_the_table_says(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(capsys, "--trace", trace, "--max-cpu", "8", "--max-mem", "32Gi")
    (result,) = said["runs"]
    total = result["total"]
    assert said["traces"][0]["samples"] == len(VALUES)
    assert result["duration_s"] == len(VALUES) * 300
    assert total["cpu_hours"]["fixed"] == 8 * len(VALUES) / 12
    assert total["cpu_hours"]["demand"] == pytest.approx(sum(VALUES) / 100 * 8 / 12)
    assert total["cpu_hours"]["clairvoyant"] <= total["cpu_hours"]["allocated"] * 1.2
    assert total["resizes"] == total["upscales"] + total["downscales"] > 0


def test_the_same_inputs_give_the_same_bytes(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = []
    for number in (1, 2):
        files = [str(tmp_path / f"{number}.{kind}") for kind in ("csv", "svg")]
        flags = (
            "--vms",
            "2",
            "--shift",
            "20m",
            "--resize-failures",
            "0.2",
            "--denials",
            "0.2",
            "--seed",
            "7",
        )
        out, _ = simulate(
            capsys, "--trace", trace, "--json", "--timeline", files[0], "--svg", files[1], *flags
        )
        outputs.append((out, *(Path(file).read_bytes() for file in files)))
    assert outputs[0] == outputs[1]


def test_the_timeline_adds_up_to_the_answer(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.csv"
    said = answer(capsys, "--trace", trace, "--timeline", str(file), "--step", "60")
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert len(rows) == said["runs"][0]["steps"] == len(VALUES) * 5
    hours = sum(float(row["allocated_cpu"]) for row in rows) / 60
    assert hours == pytest.approx(said["runs"][0]["total"]["cpu_hours"]["allocated"], abs=1e-4)


def test_two_configurations_are_shown_side_by_side(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, svg = (str(tmp_path / name) for name in ("A.json", "B.json", "c.svg"))
    Path(first).write_text('{"load-target": 0.9}')
    Path(second).write_text(
        '{"max_cpu": 8, "scaling": {"defaultConfig": {"loadAverageFractionTarget": 0.5}}}'
    )
    said = answer(capsys, "--trace", trace, "--compare", first, second, "--svg", svg)
    one, two = said["runs"]
    assert (one["name"], two["name"]) == (first, second)
    assert (one["options"]["load_target"], two["options"]["load_target"]) == (0.9, 0.5)
    assert one["total"]["cpu_hours"]["demand"] == two["total"]["cpu_hours"]["demand"]
    assert two["total"]["cpu_hours"]["allocated"] > one["total"]["cpu_hours"]["allocated"]
    assert len([e for e in ET.parse(svg).iter() if e.get("class") == "frame"]) == 2
    out, _ = simulate(capsys, "--trace", trace, "--compare", first, second)
    assert "A.JSON" in out
    assert "B.JSON" in out


def test_several_vms_share_a_node(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(capsys, "--trace", trace, "--vms", "3", "--node-cpu", "4")
    total = said["runs"][0]["total"]
    assert len(said["runs"][0]["vms"]) == 3
    assert total["permits_cut"] > 0
    assert total["cpu_hours"]["allocated"] <= 4 * len(VALUES) / 12


def test_a_memory_trace_is_followed(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = write_trace(tmp_path / "mem.csv", [10.0] * 10 + [60.0] * 17)
    svg = tmp_path / "m.svg"
    said = answer(capsys, "--trace", trace, "--mem-trace", memory, "--svg", str(svg))
    hours = said["runs"][0]["total"]["gib_hours"]
    assert hours["demand"] == pytest.approx((10 * 0.1 + 17 * 0.6) * 16 / 12)
    assert hours["allocated"] > hours["demand"]
    assert "GiB" in svg.read_text()


def test_gaps_are_noted_and_filled_with_the_value_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gap.csv"
    file.write_text("0,50\n300,50\n600,50\n7800,50\n8100,50\n")
    said = answer(capsys, "--trace", str(file))
    assert said["traces"][0]["gaps"] == 1
    assert "gap" in said["runs"][0]["notes"][0]
    assert said["runs"][0]["total"]["cpu_hours"]["demand"] == pytest.approx(2 * 8_400 / 3_600)


def test_a_configuration_file_gives_the_defaults(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.json"
    config.write_text('{"metrics": {"secondsBetweenRequests": 60.0}}')
    assert run(["--config", str(config), "simulate", "--trace", trace, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["runs"][0]["options"]["poll_period_s"] == 60


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--max-cpu", "x"], "max-cpu"),
        (["--max-cpu", "0"], "above 0"),
        (["--min-cpu", "5"], "min-cpu is above max-cpu"),
        (["--min-mem", "1.5Gi"], "whole number of slots"),
        (["--load-target", "2"], "below 2"),
        (["--load-target", "nan"], "a number"),
        (["--poll-period", "0"], "at least"),
        (["--poll-period", "soon"], "duration"),
        (["--step", "0s"], "at least"),
        (["--resize-failures", "1.5"], "between 0 and 1"),
        (["--vms", "1000"], "between 1 and 64"),
        (["--seed", "1.5"], "whole number"),
        (["--start", "middle"], "fit, min or max"),
        (["--no-such-option", "1"], "No such option"),
        (["--step", "100ms"], None),
    ],
)
def test_a_value_that_an_option_cant_have_is_one_line_and_status_2(
    flags: list[str], problem: str | None, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = simulate(capsys, "--trace", trace, *flags, status=2 if problem else 0)
    if problem:
        assert out == ""
        assert problem in err
        assert err.count("\n") == 1


def test_a_run_that_would_be_too_long_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "long.csv"
    file.write_text("0,1\n300,1\n1700000000,1\n")
    _, err = simulate(capsys, "--trace", str(file), status=2)
    assert "too long" in err


def test_a_bad_line_is_told_by_file_and_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.csv"
    file.write_text("timestamp,value\n0,1\n300,NaN\n")
    _, err = simulate(capsys, "--trace", str(file), status=2)
    assert f"{file}:3:" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["nothing.csv", "."])
def test_a_file_that_cant_be_read_is_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, err = simulate(capsys, "--trace", str(tmp_path / name), status=2)
    assert "can't be read" in err


def test_an_output_that_cant_be_written_is_one_line(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, err = simulate(capsys, "--trace", trace, "--svg", str(tmp_path / "no" / "x.svg"), status=2)
    assert "can't be written" in err


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"max-cpus": 4}', "did you mean max-cpu?"),
        ('{"max-cpu": []}', "max-cpu"),
        ('{"min-cpu": 8}', "min-cpu is above max-cpu"),
        ('{"max-cpu": true}', "max-cpu"),
        ('{"scaling": {"x": 1}}', "unknown field"),
        ("[]", "must be a JSON object"),
        ("{", "is not JSON"),
    ],
)
def test_a_mistake_in_a_configuration_to_compare_names_the_file(
    content: str, problem: str, trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text("{}")
    bad.write_text(content)
    _, err = simulate(capsys, "--trace", trace, "--compare", str(good), str(bad), status=2)
    assert "bad.json" in err
    assert problem in err
