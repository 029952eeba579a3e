"""Workers as agents of our informant, over real sockets: hand-over, suspension, being dropped."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import gevent
import pytest

from app.guest.informant_agents import InformantAgents
from app.ports.vm import Address, VirtualMachine
from app.protocols.informant import encode_expected_id
from app.protocols.informant_agent import AgentTimes
from app.protocols.informant_set import Agent, SetSettings
from app.services.informant_link import SUSPENDED, InformantLink
from app.services.runner import Runner
from tests.agent_side import SLOW, AgentSide
from tests.fakes.guest_on_loop import PATIENT, GuestOnLoop
from tests.service_builders import a_virtual_machine
from tests.worker_harness import Worker

CHECKING = SetSettings(check_after_s=0.1, id_limit_s=10, suspend_limit_s=10, resume_limit_s=10)
"""A set that checks all the time, with limits that a busy machine does not break."""


class Fixtures:
    """Guests and workers that are closed at the end."""

    def __init__(self) -> None:
        self.guests: list[GuestOnLoop] = []
        self.sides: list[AgentSide] = []

    def guest(self, settings: SetSettings = PATIENT) -> GuestOnLoop:
        self.guests.append(GuestOnLoop(settings))
        return self.guests[-1]

    def side(self, times: AgentTimes = SLOW, *, suspend_limit_s: float = 60.0) -> AgentSide:
        self.sides.append(AgentSide(times, suspend_limit_s=suspend_limit_s))
        return self.sides[-1]

    def worker(self, guest: GuestOnLoop, times: AgentTimes = SLOW, **options: float) -> Worker:
        return Worker(vm_of(guest), informants=self.side(times, **options).informants)


@pytest.fixture
def of() -> Iterator[Fixtures]:
    fixtures = Fixtures()
    yield fixtures
    for side in fixtures.sides:
        side.close()
    for guest in fixtures.guests:
        guest.close()


def vm_of(guest: GuestOnLoop, **changes: object) -> VirtualMachine:
    return a_virtual_machine(informant=Address("127.0.0.1", guest.port), **changes)


def until(holds: Callable[[], bool], what: str) -> None:
    with gevent.Timeout(60, AssertionError(f"never came: {what}")):
        while not holds():
            gevent.sleep(0.01)


def bar(worker: Worker) -> str | None:
    leave = worker.runner.informant
    assert leave is not None
    return leave.bar


def agents_of(guest: GuestOnLoop) -> tuple[Agent, ...]:
    agents: InformantAgents = guest.agents
    return agents.registered


def is_without(runner: Runner) -> bool:
    assert isinstance(runner.informant, InformantLink)
    return runner.informant.is_without


def ask(address: str, head: str, body: bytes = b"") -> bytes:
    """One request from this process, whose waits let greenlets run; the whole answer."""
    host, _, port = address.rpartition(":")
    text = f"{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"

    def run() -> bytes:
        with socket.create_connection((host, int(port)), 60) as connection:
            connection.sendall(text.encode() + body)
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    answer: bytes = gevent.get_hub().threadpool.apply(run)
    return answer


def test_a_worker_scales_a_vm_once_its_informant_has_resumed_it(of: Fixtures) -> None:
    guest = of.guest()
    worker = of.worker(guest)
    until(lambda: bar(worker) is None, "resumed")
    worker.sample(3.0)
    until(lambda: any(entry.startswith("platform") for entry in worker.log), "scaled")
    assert [agent.desc.address for agent in agents_of(guest)] != []


def test_the_newer_worker_takes_over_and_the_older_is_resumed_when_it_lets_go(of: Fixtures) -> None:
    guest = of.guest()
    first = of.worker(guest)
    until(lambda: bar(first) is None, "the first is resumed")
    second = of.worker(guest)
    until(lambda: bar(second) is None and bar(first) == SUSPENDED, "handed over")
    first.log.clear()
    first.sample(3.0)
    assert first.log == [], "a suspended worker asks nobody for anything"
    assert SUSPENDED in first.runner.why()
    first.runner.update_status()
    assert (first.runner.status, first.runner.status_reason) == ("ok", SUSPENDED)
    second.supervisor.lost(second.runner.bucket)
    until(lambda: bar(first) is None, "the first is resumed again")
    first.sample(3.0)
    until(lambda: any(entry.startswith("platform") for entry in first.log), "scaled")


def test_a_suspended_worker_leaves_the_monitor_to_the_other(of: Fixtures) -> None:
    guest = of.guest()
    first = of.worker(guest)
    until(lambda: first.runner.state.monitor.is_active, "the monitor is connected")
    second = of.worker(guest)
    until(lambda: bar(first) == SUSPENDED, "handed over")
    first.settle()
    assert first.supervisor.link(first.runner) is None
    assert first.monitor.exited
    until(lambda: second.runner.state.monitor.is_active, "the other one is connected")


def test_a_suspend_is_answered_after_the_effect_in_flight_and_nothing_begins_meanwhile(of: Fixtures) -> None:
    guest = of.guest()
    first = of.worker(guest)
    until(lambda: first.runner.state.monitor.is_active, "resumed and connected")
    go_on, order = gevent.event.Event(), []

    def held() -> None:
        order.append("in flight")
        go_on.wait(60)
        order.append("answered")

    first.monitor.before_answer = held
    first.sample(3.0)
    until(lambda: order == ["in flight"], "the monitor is being told")
    before = list(first.log)
    second = of.worker(guest)
    until(lambda: bar(second) is None and bar(first) == SUSPENDED, "barred at once")
    assert ask_id(guest, first) == 200, "an id check is answered meanwhile"
    first.sample(3.5)
    assert first.log == before
    assert len(agents_of(guest)) == 2, "the suspend waits, it has not failed"
    go_on.set()
    until(lambda: order == ["in flight", "answered"], "it ends")
    first.settle()
    assert len(first.log) == len(before) + 1, "the monitor's answer, and nothing after it"
    assert len(agents_of(guest)) == 2


def ask_id(guest: GuestOnLoop, worker: Worker) -> int:
    """The status of an id check of the older one of two agents."""
    return int(ask(agents_of(guest)[0].desc.address, "GET /id").split(b" ")[1])


def test_an_informant_that_waits_no_longer_gets_the_registration_again(of: Fixtures) -> None:
    guest = of.guest(SetSettings(check_after_s=600, id_limit_s=10, suspend_limit_s=0.2, resume_limit_s=10))
    first = of.worker(guest, suspend_limit_s=0.1)
    until(lambda: first.runner.state.monitor.is_active, "resumed and connected")
    go_on = gevent.event.Event()
    first.monitor.before_answer = lambda: go_on.wait(60)
    first.sample(3.0)
    second = of.worker(guest)
    until(lambda: len(agents_of(guest)) == 1 and bar(second) is None, "the first is dropped")
    go_on.set()
    until(lambda: bar(first) is None and bar(second) == SUSPENDED, "the first is there again, the newest")


def test_a_worker_that_was_dropped_registers_again(of: Fixtures) -> None:
    guest = of.guest(CHECKING)
    worker = of.worker(guest, AgentTimes(silence_s=2.0, retry_s=0.05))
    until(lambda: bar(worker) is None, "resumed")
    (agent,) = agents_of(guest)
    assert guest.run(_drop(guest, agent)) is True
    until(lambda: len(agents_of(guest)) == 1 and agents_of(guest)[0] is not agent, "registered again")
    until(lambda: bar(worker) is None, "resumed again")


async def _drop(guest: GuestOnLoop, agent: Agent) -> object:
    """As after a failed check: the agent is not told."""
    return guest.agents.unregister(agent.desc)


def test_an_informant_that_comes_later_is_found(of: Fixtures) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        worker = Worker(
            a_virtual_machine(informant=Address("127.0.0.1", reserved.getsockname()[1])),
            informants=of.side().informants,
        )
        until(lambda: "no connection" in str(bar(worker)), "refused")
    worker.sample(3.0)
    assert worker.log == []
    assert "not registered with the VM's informant" in worker.runner.why()
    guest = of.guest()
    worker.runner.update_vm(vm_of(guest))
    worker.supervisor.relink(worker.runner)
    until(lambda: bar(worker) is None, "resumed")


def test_one_guest_suspends_the_work_on_itself_only(of: Fixtures) -> None:
    guests = [of.guest(), of.guest()]
    vms = [vm_of(guest, name=f"db-{n}") for n, guest in enumerate(guests)]
    worker = Worker(*vms, informants=of.side().informants)
    runners = worker.supervisor.runners()
    bars = [runner.informant for runner in runners]
    until(lambda: all(each is not None and each.bar is None for each in bars), "both are resumed")
    agents = [agents_of(guest)[0].desc for guest in guests]
    assert len({desc.address for desc in agents} | {desc.agent_id for desc in agents}) == 4
    foreign = ask(agents[1].address, "POST /suspend", encode_expected_id(agents[0].agent_id))
    assert foreign.startswith(b"HTTP/1.1 404")
    own = ask(agents[0].address, "POST /suspend", encode_expected_id(agents[0].agent_id))
    assert own.startswith(b"HTTP/1.1 200")
    assert b'"sequenceNumber":' in own.replace(b" ", b"")
    assert [runner.informant.bar for runner in runners if runner.informant] == [SUSPENDED, None]


def test_a_port_is_open_only_while_its_agent_is_registered(of: Fixtures) -> None:
    guest = of.guest()
    worker = of.worker(guest)
    until(lambda: bar(worker) is None, "resumed")
    address = agents_of(guest)[0].desc.address
    assert ask(address, "GET /id", b"{}").startswith(b"HTTP/1.1 200")
    worker.supervisor.lost(worker.runner.bucket)

    def is_closed() -> bool:
        try:
            ask(address, "GET /id")
        except ConnectionError:
            return True
        return False

    until(is_closed, "closed")
    assert agents_of(guest) == ()


def test_more_vms_than_ports_go_on_without_and_take_the_port_that_becomes_free(of: Fixtures) -> None:
    guest = of.guest()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    side = AgentSide(ports=[port])
    of.sides.append(side)
    worker = Worker(vm_of(guest, name="a"), vm_of(guest, name="b"), informants=side.informants)
    until(lambda: "go on without their informant: 1" in str(side.informants.problems), "said")
    leaves = [runner.informant for runner in worker.supervisor.runners()]
    until(lambda: all(leave is not None and leave.bar is None for leave in leaves), "both may act")
    assert side.informants.counts == {"informant_agents": 2, "informant_active": 2}
    (agent,) = agents_of(guest)
    with_port = next(runner for runner in worker.supervisor.runners() if not is_without(runner))
    side.informants.leave(with_port)
    until(
        lambda: [each for each in agents_of(guest) if each is not agent] != [], "the other one has the port"
    )
    until(lambda: side.informants.problems == [], "and nothing is wrong any more")


def test_a_worker_that_was_frozen_fails_its_check_and_registers_again(of: Fixtures) -> None:
    guest = of.guest(SetSettings(check_after_s=0.1, id_limit_s=1, suspend_limit_s=10, resume_limit_s=10))
    worker = of.worker(guest, AgentTimes(silence_s=2.0, retry_s=0.05))
    until(lambda: bar(worker) is None, "resumed")
    (agent,) = agents_of(guest)
    time.sleep(3.0)  # no greenlet of this process runs meanwhile, so nobody answers the check
    assert guest.agents.get(agent.desc.agent_id) is not agent
    until(lambda: len(agents_of(guest)) == 1 and bar(worker) is None, "registered and resumed again")
