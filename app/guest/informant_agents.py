"""The informant's agents at work: the set's effects carried out over asyncio (`spec/informant.md`).

The decisions are `app.protocols.informant_set`'s. Used on one event loop; the set's lock is there for the
watchdog, which looks at it from a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar, assert_never

from app.errors import InvalidInput
from app.guest.agent_client import AgentCallFailed, AgentClient
from app.protocols.informant import (
    AgentDesc,
    AgentRequest,
    decode_agent_answer,
    encode_expected_id,
    parse_address,
)
from app.protocols.informant_set import (
    Agent,
    AgentGone,
    AgentSet,
    CallAgent,
    OldNumber,
    Refusal,
    RegistrationEnded,
    SetEffect,
    SetSettings,
)

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class InformantAgents:
    """Registers, checks, resumes and suspends agents until `stop`."""

    def __init__(self, settings: SetSettings | None = None) -> None:
        self.lock = threading.Lock()  # guards the set; held for one step of it, never over I/O
        self._set = AgentSet(settings)
        self._clients: dict[int, AgentClient] = {}
        self._calls: dict[int, set[asyncio.Task[None]]] = {}
        self._pending: dict[int, asyncio.Future[int | Refusal]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def get(self, agent_id: str) -> Agent | None:
        """An agent by its id, those still being checked included."""
        with self.lock:
            return self._set.get(agent_id)

    @property
    def current(self) -> Agent | None:
        """The agent that may act now."""
        with self.lock:
            return self._set.current

    @property
    def registered(self) -> tuple[Agent, ...]:
        """In the order of their registration."""
        with self.lock:
            return self._set.registered

    async def register_new_agent(
        self, desc: AgentDesc, *, caller: str = "127.0.0.1", is_allowed: bool = True
    ) -> int | Refusal:
        """Register an agent, which waits for its `/id`: the version to talk in, or the refusal.

        Where the wait is cancelled the agent stays, if its check succeeds.
        """
        if self._is_stopped:
            return Refusal(503, "going away")
        outcome = self._step(lambda: self._set.register(desc, caller=caller, is_allowed=is_allowed))
        if isinstance(outcome, Refusal):
            return outcome
        registration, effects = outcome
        ended: asyncio.Future[int | Refusal] = asyncio.get_running_loop().create_future()
        self._pending[registration] = ended
        self._clients[registration] = AgentClient(*parse_address(desc.address))
        self._carry_out(effects)
        return await ended

    def unregister(self, desc: AgentDesc, *, is_allowed: bool = True) -> bool | Refusal:
        """Unregister an agent: whether it was current, or the refusal."""
        outcome = self._step(lambda: self._set.unregister(desc, is_allowed=is_allowed))
        if isinstance(outcome, Refusal):
            return outcome
        was_active, effects = outcome
        self._carry_out(effects)
        return was_active

    async def stop(self) -> None:
        """End all calls and checks; nobody is told. A second time does nothing."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for ended in self._pending.values():
            if not ended.done():
                ended.set_result(Refusal(503, "going away"))
        self._pending.clear()
        tasks = [task for tasks in self._calls.values() for task in tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in self._clients.values():
            client.close()

    def _step(self, step: Callable[[], _T]) -> _T:
        with self.lock:
            return step()

    def _carry_out(self, effects: list[SetEffect]) -> None:
        for effect in effects:
            match effect:
                case CallAgent():
                    self._begin_call(effect)
                case AgentGone():
                    self._end_agent(effect)
                case RegistrationEnded(registration, outcome):
                    ended = self._pending.pop(registration, None)
                    if ended is not None and not ended.done():
                        ended.set_result(outcome)
                case OldNumber(desc, number, last):
                    facts = {"agent": desc.agent_id, "number": number, "last": last}
                    logger.warning("an agent answered with an old sequence number", extra=facts)
                case _:
                    assert_never(effect)
        self._set_timer()

    def _begin_call(self, call: CallAgent) -> None:
        if self._is_stopped:
            return
        name = f"agent-{call.number}{call.request.path}"
        task = asyncio.get_running_loop().create_task(self._call(call), name=name)
        tasks = self._calls.setdefault(call.registration, set())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _call(self, call: CallAgent) -> None:
        """Ask the agent, tell the set how it went; cancelled with the agent's registration."""
        body = b"" if call.request is AgentRequest.ID else encode_expected_id(call.desc.agent_id)
        client = self._clients[call.registration]
        try:
            answer = decode_agent_answer(await client.ask(call.request, body, limit_s=call.limit_s))
        except (AgentCallFailed, InvalidInput) as err:
            problem = str(err)
            effects = self._step(lambda: self._set.failed(time.monotonic(), call.number, problem))
        else:
            effects = self._step(lambda: self._set.answered(time.monotonic(), call.number, answer))
        self._carry_out(effects)

    def _end_agent(self, gone: AgentGone) -> None:
        facts = {"agent": gone.desc.agent_id, "address": gone.desc.address, "problem": gone.problem}
        if gone.problem is None:
            logger.info("an agent is unregistered", extra=facts)
        else:
            logger.warning("an agent is dropped", extra=facts)
        own = asyncio.current_task()
        for task in self._calls.pop(gone.registration, set()):
            if task is not own:
                task.cancel()
        self._clients.pop(gone.registration).close()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self.lock:
            due = self._set.due()
        if due is not None and not self._is_stopped:
            wait_s = max(due - time.monotonic(), 0)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)

    def _tick(self) -> None:
        self._carry_out(self._step(lambda: self._set.tick(time.monotonic())))
