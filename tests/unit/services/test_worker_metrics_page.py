"""The page of a process: whose series are on it, when they are made anew, and that nobody waits for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.core.resources import resources
from app.ports.agent_metrics import AGENT_FAMILIES
from app.ports.own_metrics import WORKER_FAMILIES
from app.ports.runtime import Monotonic
from app.protocols.metric_families import Counter, Family, Reading
from app.services.metrics_page import VMS_A_LOOK, MetricsPage
from app.services.runner import Runner
from app.services.vm_series import VM_FAMILIES, VmSeries
from tests.fakes.clock import FakeClock
from tests.fakes.concurrency import VirtualConcurrency
from tests.service_builders import a_runner, a_virtual_machine


class SlowClock(FakeClock):
    """Each look at it takes a millisecond."""

    def monotonic(self) -> Monotonic:
        self.advance(0.001)
        return super().monotonic()


def in_job(jobs: VirtualConcurrency, page: MetricsPage) -> bytes:
    texts: list[bytes] = []
    jobs.spawn("scrape", lambda: texts.append(page.text()))
    for _ in range(1_000):
        jobs.advance(0.001)
        if texts:
            return texts[0]
    raise AssertionError("no page")


def page_of(clock: FakeClock, jobs: VirtualConcurrency, *runners: Runner) -> MetricsPage:
    return MetricsPage([], clock, jobs, lambda: None, lambda: list(runners))


def sizes_of(page: bytes) -> dict[tuple[str, str, str], float]:
    return {
        (family.name, sample.labels["resource"], sample.labels["value"]): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_a_vm_has_the_series_that_dashboards_know() -> None:
    runner = a_runner(FakeClock(), a_virtual_machine(endpoint_id="ep-1", name="db"))
    text = VmSeries().lines_of(runner)[0].decode()
    head = 'autoscaling_vm_resources{vm_namespace="default",vm_name="db",endpoint_id="ep-1"'
    assert f'{head},resource="cpu",value="max"}} 4\n' in text
    assert f'{head},resource="mem",value="min"}} {2**30}\n' in text
    assert text.count("\n") == 8


def test_a_size_that_is_not_known_has_no_series() -> None:
    runner = a_runner(FakeClock(), a_virtual_machine(observed=None))
    assert "status_use" not in VmSeries().lines_of(runner)[0].decode()


def test_lines_are_made_anew_only_where_something_has_changed() -> None:
    clock = FakeClock()
    series, runners = VmSeries(), [a_runner(clock, a_virtual_machine(name=f"db-{n}")) for n in range(3)]
    before = [series.lines_of(runner) for runner in runners]
    assert [series.lines_of(runner) for runner in runners] == before
    assert series.made == 3
    runners[1].update_vm(replace(runners[1].vm, observed=resources(2_000, 8), use=resources(2_000, 8)))
    after = [series.lines_of(runner) for runner in runners]
    assert series.made == 4
    assert [after[n] is before[n] for n in range(3)] == [True, False, True]
    assert b'value="status_use"} 2\n' in after[1][0]
    assert b'value="observed"} 2\n' in after[1][1]


def test_the_page_is_read_back_by_prometheus_own_parser() -> None:
    clock = FakeClock()
    jobs = VirtualConcurrency(clock)
    page = in_job(jobs, page_of(clock, jobs, a_runner(clock)))
    sizes = sizes_of(page)
    assert sizes["autoscaling_vm_resources", "cpu", "spec_use"] == 1.0
    assert sizes["vmscaler_vm_size", "mem", "observed"] == 4 * 2**30
    assert page.count(b"# TYPE autoscaling_vm_resources ") == 1


def test_series_go_with_their_runner() -> None:
    clock = FakeClock()
    jobs = VirtualConcurrency(clock)
    runners = [a_runner(clock, a_virtual_machine(name=name)) for name in ("stays", "closed", "gone")]
    page = MetricsPage([], clock, jobs, lambda: None, lambda: runners)
    assert b'"gone"' in in_job(jobs, page)
    runners[1].is_closed = True
    del runners[2]
    text = in_job(jobs, page)
    assert b'"stays"' in text
    assert b'"closed"' not in text
    assert b'"gone"' not in text


def test_others_have_their_turn_while_a_large_page_is_made() -> None:
    clock = SlowClock()
    jobs = VirtualConcurrency(clock)
    runners = [a_runner(clock, a_virtual_machine(name=f"db-{n}")) for n in range(20 * VMS_A_LOOK)]
    turns = 0
    texts: list[bytes] = []
    jobs.spawn("scrape", lambda: texts.append(page_of(clock, jobs, *runners).text()))
    while not texts:
        turns += 1
        jobs.advance(0.001)
    assert turns >= 5, "in one stretch it would be there at the first or second turn"


def test_who_asks_while_a_page_is_made_gets_the_same_one() -> None:
    clock = FakeClock()
    jobs = VirtualConcurrency(clock)
    reads: list[int] = []
    page = MetricsPage([], clock, jobs, lambda: reads.append(1))
    texts: list[bytes] = []
    for _ in range(5):
        jobs.spawn("scrape", lambda: texts.append(page.text()))
    while len(texts) < 5:
        jobs.advance(0.001)
    assert len(reads) == 1
    assert all(text is texts[0] for text in texts)


def test_readings_that_fail_leave_the_counters_on_the_page(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    jobs = VirtualConcurrency(clock)

    def fail() -> None:
        raise ZeroDivisionError

    page = MetricsPage([Counter("some_total", "some")], clock, jobs, fail)
    assert b"some_total 0\n" in in_job(jobs, page)
    assert "readings for the metrics page failed" in caplog.text


def test_names_are_unique_and_bounded() -> None:
    families: tuple[Family, ...] = (*AGENT_FAMILIES, *WORKER_FAMILIES, *VM_FAMILIES)
    assert len({family.name for family in families}) == len(families)
    fixed = [family for family in families if family not in VM_FAMILIES]
    assert sum(len(list(family.all_values())) for family in fixed) < 200
    assert all(not isinstance(family, Reading) or family.kind in ("gauge", "counter") for family in families)
