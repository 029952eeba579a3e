"""A worker's agents: nothing begins without the informant's leave, and nothing waits for an informant."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

import gevent
import gevent.event
import pytest

from app.adapters.clock import SystemClock
from app.adapters.green import GreenConcurrency
from app.core.model import Mode
from app.ports.runtime import Clock
from app.ports.store import BucketName, FencingToken, VmWrite
from app.ports.vm import Address, MonitorPolicy, VirtualMachine
from app.protocols.agent_store import MemoryAgentStore
from app.protocols.informant import AgentRequest
from app.protocols.informant_agent import AgentTimes
from app.services.informant_link import SUSPENDED, InformantPeers, InformantSettings
from app.services.informants import Informants
from tests.fakes.clock import FakeClock
from tests.fakes.informants import FakeInformants
from tests.fakes.states import MemoryState
from tests.service_builders import BUCKET, a_virtual_machine
from tests.worker_harness import Worker

PATIENT = AgentTimes(silence_s=600, resume_s=600, retry_s=600)


class HookedState(MemoryState):
    """What is called once something has been written, before the writer goes on."""

    after_commit: Callable[[], None] = staticmethod(lambda: None)

    def commit(self, bucket: BucketName, token: FencingToken, writes: Sequence[VmWrite]) -> None:
        super().commit(bucket, token, writes)
        self.after_commit()


def informants_of(
    fake: FakeInformants, times: AgentTimes = PATIENT, clock: Clock | None = None, **settings: float
) -> Informants:
    zero = itertools.repeat(0.0)
    peers = InformantPeers(
        fake, fake, clock or SystemClock(), GreenConcurrency(), lambda: str(uuid.uuid4()), lambda: next(zero)
    )
    informants = Informants(peers, InformantSettings(times, **settings), "20000-20999", MemoryAgentStore())
    concurrency = GreenConcurrency()
    stop = concurrency.signal()
    concurrency.spawn("informants", lambda: informants.run(stop))
    return informants


def a_vm(**changes: object) -> VirtualMachine:
    return a_virtual_machine(informant=Address("10.0.0.9", 10301), **changes)


def a_worker(fake: FakeInformants, times: AgentTimes = PATIENT, **settings: float) -> Worker:
    return Worker(a_vm(), informants=informants_of(fake, times, None, **settings))


def bar(worker: Worker) -> str | None:
    assert worker.runner.informant is not None
    return worker.runner.informant.bar


def test_nothing_is_asked_of_anyone_before_the_informant_has_resumed_us() -> None:
    fake = FakeInformants(is_resuming=False)
    worker = a_worker(fake)
    worker.until(lambda: "/register" in fake.log)
    worker.sample(3.0)
    assert worker.log == []
    assert worker.monitor.connections == 0
    assert "waits for the leave of the VM's informant" in worker.runner.why()
    fake.ask(fake.newest, AgentRequest.RESUME)
    worker.until(lambda: any(entry.startswith("platform") for entry in worker.log))
    assert "informant" in worker.audit()


def test_a_vm_without_an_informant_asks_nobody() -> None:
    fake = FakeInformants()
    worker = Worker(a_virtual_machine(), informants=informants_of(fake))
    assert worker.runner.informant is None
    worker.sample(3.0)
    assert any(entry.startswith("platform") for entry in worker.log)
    assert fake.log == []


@pytest.mark.parametrize("changes", [{"mode": Mode.OBSERVE}, {"migrating": True}])
def test_no_agent_is_registered_for_a_vm_of_which_nobody_is_asked_anything(
    changes: dict[str, object],
) -> None:
    fake = FakeInformants()
    worker = Worker(a_vm(**changes), informants=informants_of(fake))
    worker.settle()
    assert fake.log == []


def test_a_vm_that_is_observed_from_now_on_is_let_go() -> None:
    fake = FakeInformants()
    worker = a_worker(fake)
    worker.until(lambda: bar(worker) is None)
    worker.runner.update_vm(replace(worker.runner.vm, mode=Mode.OBSERVE))
    worker.supervisor.relink(worker.runner)
    worker.until(lambda: fake.registered == {})
    assert worker.runner.informant is None
    assert not fake.servers[0].is_open


def test_an_informant_at_another_address_is_registered_with_anew() -> None:
    fake = FakeInformants()
    worker = a_worker(fake)
    worker.until(lambda: bar(worker) is None)
    old = fake.newest
    worker.runner.update_vm(replace(worker.runner.vm, informant=Address("10.0.0.10", 1)))
    worker.supervisor.relink(worker.runner)
    worker.until(lambda: list(fake.registered) not in ([], [old.agent_id]) and bar(worker) is None)
    assert fake.newest.address != old.address


def test_a_suspend_while_the_state_is_written_keeps_the_request_from_leaving() -> None:
    fake, states = FakeInformants(), HookedState(SystemClock())
    worker = Worker(a_vm(), states=states, informants=informants_of(fake))
    worker.until(lambda: worker.runner.state.monitor.is_active)
    before = list(worker.log)
    answers: list[int] = []

    def suspend() -> None:
        answers.append(fake.ask(fake.newest, AgentRequest.SUSPEND).status)

    def suspend_meanwhile() -> None:
        if worker.runner.operation is not None and not answers:
            answers.append(0)
            gevent.spawn(suspend)
            gevent.sleep(0)

    states.after_commit = suspend_meanwhile
    worker.sample(3.0)
    worker.until(lambda: answers == [0, 200])
    assert [entry for entry in worker.log[len(before) :] if entry.startswith("platform")] == []
    assert worker.runner.operation is None
    assert bar(worker) == SUSPENDED
    fake.ask(fake.newest, AgentRequest.RESUME)
    worker.runner.hold_until_ms = None
    worker.until(lambda: bar(worker) is None)


def test_letting_go_during_a_registration_unregisters_after_it() -> None:
    fake = FakeInformants(held=gevent.event.Event())
    worker = a_worker(fake, request_s=60.0)
    worker.until(lambda: fake.log == ["/register begins"])
    worker.supervisor.lost(BUCKET)
    worker.settle()
    assert fake.log == ["/register begins"]
    assert fake.held is not None
    fake.held.set()
    worker.until(lambda: fake.log[-1] == "/unregister")
    assert fake.registered == {}
    worker.until(lambda: not fake.servers[0].is_open)


def test_a_hand_over_does_not_wait_for_the_informant() -> None:
    fake = FakeInformants()
    worker = a_worker(fake, request_s=60.0)
    worker.until(lambda: bar(worker) is None)
    fake.held = gevent.event.Event()
    with gevent.Timeout(30):
        worker.supervisor.releasing(BUCKET)
    assert worker.supervisor.runners() == []
    assert "/unregister" not in fake.log
    fake.held.set()
    worker.until(lambda: fake.log[-1] == "/unregister")


def test_the_end_waits_for_informants_no_longer_than_it_may() -> None:
    fake = FakeInformants()
    informants = informants_of(fake, request_s=60.0)
    worker = Worker(a_vm(), informants=informants)
    worker.until(lambda: bar(worker) is None)
    fake.held = gevent.event.Event()
    with gevent.Timeout(30):
        informants.finish(0.05)
    assert fake.log[-1] == "closed"
    assert informants.counts == {"informant_agents": 0, "informant_active": 0}


def test_the_end_tells_every_informant() -> None:
    fake = FakeInformants()
    informants = informants_of(fake)
    worker = Worker(a_vm(), a_vm(name="other"), informants=informants)
    worker.until(lambda: informants.counts["informant_active"] == 2)
    informants.finish(30.0)
    assert fake.registered == {}
    assert fake.log[-1] == "closed"


def test_silent_informants_hold_up_no_other_vm() -> None:
    fake = FakeInformants(held=gevent.event.Event())
    informants = informants_of(fake, request_s=60.0)
    worker = Worker(*(a_vm(name=f"silent-{n}") for n in range(200)), informants=informants)
    worker.until(lambda: fake.log.count("/register begins") == 200)
    fake.held = None
    worker.platform.put(a_vm(name="healthy"))
    worker.settle()
    worker.take_up()
    worker.until(lambda: informants.counts["informant_active"] == 1)


def test_a_refusal_is_told_and_tried_again_with_a_new_id_at_a_new_port() -> None:
    fake = FakeInformants(status=503)
    worker = a_worker(fake, AgentTimes(silence_s=600, resume_s=600, retry_s=0.01))
    worker.until(lambda: "status 503" in str(bar(worker)))
    worker.until(lambda: fake.log.count("/register") > 2)
    assert sum(server.is_open for server in fake.servers) <= 1
    fake.status = 200
    worker.until(lambda: bar(worker) is None)
    assert fake.newest.address == fake.servers[-1].address


def test_no_connection_is_told_once_in_the_trail() -> None:
    fake = FakeInformants(status=None)
    worker = a_worker(fake, AgentTimes(silence_s=600, resume_s=600, retry_s=0.01, retry_max_s=0.01))
    worker.until(lambda: fake.log.count("/register fails") > 5)
    worker.sample(1.0)
    assert worker.audit().count("informant") == 1


def test_silence_makes_us_register_again_and_409_changes_nothing() -> None:
    fake = FakeInformants()
    worker = a_worker(fake, AgentTimes(silence_s=0.05, resume_s=600, retry_s=600))
    worker.until(lambda: bar(worker) is None)
    fake.status = 409
    registrations = fake.log.count("/register")
    worker.until(lambda: fake.log.count("/register") > registrations + 2 and bar(worker) is None)
    assert len({server.address for server in fake.servers}) == 1


def test_a_used_up_range_is_said_once_and_the_vm_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeInformants(free=0)
    informants = informants_of(fake, no_port_s=0.01)
    worker = Worker(a_vm(), a_vm(name="other"), informants=informants)
    worker.until(lambda: informants.problems != [])
    assert "20000-20999 are used up" in informants.problems[0]
    worker.settle()
    assert len([record for record in caplog.records if record.message == "no port is free for an agent"]) == 1
    worker.until(lambda: sum(entry.startswith("permit") for entry in worker.log) >= 2)
    fake.free = 2
    worker.until(lambda: informants.problems == [] and len(fake.registered) == 2)


def test_a_suspended_vm_is_not_stuck_for_its_silent_monitor() -> None:
    fake = FakeInformants()
    worker = a_worker(fake)
    worker.until(lambda: worker.runner.state.monitor.is_active)
    fake.ask(fake.newest, AgentRequest.SUSPEND)
    worker.runner.monitor_ok = type(worker.runner.started)(worker.runner.started - 1_000)
    worker.runner.update_status()
    assert (worker.runner.status, worker.runner.status_reason) == ("ok", SUSPENDED)
    fake.ask(fake.newest, AgentRequest.RESUME)
    worker.runner.update_status()
    assert (worker.runner.status, worker.runner.status_reason) == ("ok", "")
    assert worker.runner.vm.monitor is MonitorPolicy.REQUIRED


def test_a_vm_that_is_left_alone_for_long_is_worth_an_operators_look() -> None:
    fake, clock = FakeInformants(), FakeClock()
    informants = informants_of(fake, clock=clock)
    worker = Worker(a_vm(), a_vm(name="other"), informants=informants)
    worker.until(lambda: informants.counts["informant_active"] == 2)
    fake.ask(fake.newest, AgentRequest.SUSPEND)
    assert informants.problems == [], "a change-over is none"
    clock.advance(10.0)
    (text,) = informants.problems
    assert text.startswith("1 VMs are not scaled")
    assert text.endswith(f": {SUSPENDED}")


def test_a_suspend_is_kept_waiting_for_so_long_only_and_bars_all_the_same() -> None:
    fake = FakeInformants()
    worker = a_worker(fake, suspend_wait_s=0.01)
    worker.until(lambda: worker.runner.state.monitor.is_active)
    go_on = gevent.event.Event()
    worker.monitor.before_answer = lambda: go_on.wait(60)
    worker.sample(3.0)
    worker.until(lambda: worker.runner.is_busy)
    answer = fake.ask(fake.newest, AgentRequest.SUSPEND)
    assert (answer.status, bar(worker)) == (503, SUSPENDED)
    go_on.set()
    worker.until(lambda: not worker.runner.is_busy)
    assert bar(worker) == SUSPENDED


def test_an_answer_that_cannot_be_read_is_no_registration() -> None:
    worker = a_worker(FakeInformants(answer=b"[]", is_resuming=False))
    worker.until(lambda: str(bar(worker)).endswith("its answer can't be read"))


def test_an_informant_whose_name_has_no_address_is_told_and_tried_again() -> None:
    fake = FakeInformants(is_named=False)
    worker = a_worker(fake, AgentTimes(silence_s=600, resume_s=600, retry_s=0.01))
    worker.until(lambda: str(bar(worker)).endswith("its name has no address"))
    assert fake.log == []
    fake.is_named = True
    worker.until(lambda: bar(worker) is None)


def test_an_informant_that_cannot_be_told_is_let_go_all_the_same() -> None:
    fake = FakeInformants()
    worker = a_worker(fake)
    worker.until(lambda: bar(worker) is None)
    fake.status = None
    worker.supervisor.lost(BUCKET)
    worker.until(lambda: not fake.servers[0].is_open)
    assert fake.log[-1] == "/unregister fails"
