from __future__ import annotations

from app.core.model import Metrics
from app.core.resources import resources
from app.services.own_monitor import judge_downscale

MIB = 2**20


def answer(target_slots: int, workload_mib: float) -> bool:
    metrics = Metrics(0.1, 0.1, (workload_mib + 100) * MIB)
    return judge_downscale(resources(250, target_slots), 1024 * MIB, metrics).is_allowed


def test_a_downscale_is_allowed_while_the_workload_and_its_headroom_fit() -> None:
    # (1024 - 100) * 0.85 = 785.4 MiB must hold the workload and 100 MiB.
    assert answer(1, 685)
    assert not answer(1, 686)


def test_without_a_sample_nothing_is_allowed() -> None:
    assert not judge_downscale(resources(250, 8), 1024 * MIB, None).is_allowed


def test_a_refusal_says_how_much_is_needed_and_how_much_would_be_left() -> None:
    status = judge_downscale(resources(250, 1), 1024 * MIB, Metrics(0, 0, 1100 * MIB)).status
    assert "1100 MiB" in status
    assert "785 MiB" in status
