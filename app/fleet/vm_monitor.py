"""The vm-monitor of one simulated VM: the real protocol and memory policy, over the model's memory."""

from __future__ import annotations

import asyncio
import time
from typing import assert_never

from app.fleet.fleet import Fleet
from app.fleet.simulated_vm import SimulatedVm
from app.guest.http_messages import Conversation
from app.protocols.memory_policy import SAMPLES, MemoryPolicy
from app.protocols.monitor_guest import (
    AgentReady,
    CloseAgent,
    DownscaleAsked,
    GuestConnection,
    GuestEffect,
    SendToAgent,
    UpscaleGranted,
)
from app.simulation.faults import Fault

TICK_S = 1.0
"""How often the VM's memory is looked at while an agent is connected."""
HANDSHAKE_S = 10.0
"""For an agent to say which versions it speaks."""


class VmMonitor:
    """One VM's monitor; a new connection ends the one before."""

    def __init__(self, fleet: Fleet, vm: SimulatedVm) -> None:
        self._fleet = fleet
        self._vm = vm
        self._policy = MemoryPolicy(vm.observed.mem * vm.plan.slot_bytes)
        self._current: Conversation | None = None
        self._holder = ""

    async def converse(self, conversation: Conversation, holder: str) -> None:
        """Serve one agent until either side ends it.

        Args:
            holder: who connects, for the journal; "" for someone who does not say.

        Raises:
            app.guest.websocket.WebSocketClosed: the ordinary end.
        """
        before, self._current, self._holder = self._current, conversation, holder
        self._fleet.note_contact(self._vm, "monitor connected", holder)
        if before is not None:
            await before.close(1000, "another agent has connected")
        connection = GuestConnection()
        watch = asyncio.create_task(self._watch(conversation, connection), name=f"memory-{self._vm.key}")
        try:
            while True:
                if not await self._take_message(conversation, connection):
                    return
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            if self._current is conversation:
                self._current = None

    async def _take_message(self, conversation: Conversation, connection: GuestConnection) -> bool:
        """Handle the next message; False when the connection is to end."""
        if connection.is_open or self._is_silent():
            message = await conversation.receive()
        else:
            try:
                async with asyncio.timeout(HANDSHAKE_S):
                    message = await conversation.receive()
            except TimeoutError:
                await conversation.close(1002, "no handshake in time")
                return False
        if self._current is not conversation:
            # Another agent has connected meanwhile: what the earlier one still sends counts no more.
            return False
        if self._is_silent():
            return True
        data = message if isinstance(message, bytes) else message.encode("utf-8", "replace")
        for effect in connection.receive(data):
            if not await self._carry_out(conversation, connection, effect):
                return False
        return True

    async def _carry_out(
        self, conversation: Conversation, connection: GuestConnection, effect: GuestEffect
    ) -> bool:
        match effect:
            case SendToAgent(data):
                await _send(conversation, data)
            case CloseAgent(code, problem):
                await conversation.close(code, problem)
                return False
            case UpscaleGranted(message_id, cpu, mem):
                self._policy.resize(mem)
                self._note("told", cpu, mem)
                await _send(conversation, connection.confirm_upscale(message_id))
            case DownscaleAsked():
                await _send(conversation, self._answer(connection, effect))
            case AgentReady():
                return True
            case _:
                assert_never(effect)
        return True

    def _answer(self, connection: GuestConnection, asked: DownscaleAsked) -> bytes:
        if self._fleet.is_on(Fault.MONITOR_DENIES, self._vm):
            self._note("denied", asked.cpu, asked.mem)
            return connection.answer_downscale(
                asked.message_id, is_allowed=False, status="denied by the fault monitor-denies"
            )
        self._sample(SAMPLES)
        verdict = self._policy.judge_downscale(time.monotonic(), asked.mem)
        self._note("approved" if verdict.is_allowed else "denied", asked.cpu, asked.mem)
        if verdict.is_failure:
            return connection.report_failure(asked.message_id, verdict.status)
        if verdict.is_allowed:
            self._policy.resize(asked.mem)
        return connection.answer_downscale(
            asked.message_id, is_allowed=verdict.is_allowed, status=verdict.status
        )

    def _note(self, what: str, cpu: float, mem_bytes: int) -> None:
        """Who was answered what: `told` of more, `approved` or `denied` less; `cpu` in CPUs."""
        size = {"cpu_m": round(cpu * 1000), "mem_bytes": mem_bytes}
        self._fleet.note_contact(self._vm, f"monitor {what}", self._holder, to=size)

    async def _watch(self, conversation: Conversation, connection: GuestConnection) -> None:
        """Ask for memory when the workload needs it, once a second at most."""
        while True:
            await asyncio.sleep(TICK_S)
            wants_memory = self._sample(1)
            if wants_memory and connection.is_open and not self._is_silent():
                await _send(conversation, connection.request_upscale())

    def _sample(self, count: int) -> bool:
        """Tell the policy of the memory in use, `count` times; whether it wants to ask for more.

        The model's memory moves over seconds: the samples of the last half second are all the present one.
        """
        used = self._fleet.present(self._vm).model.used_bytes
        now = time.monotonic()
        wishes = [self._policy.record(now, used) for _ in range(count)]
        return any(wishes)

    def _is_silent(self) -> bool:
        return self._fleet.is_on(Fault.MONITOR_SILENT, self._vm)


async def _send(conversation: Conversation, data: bytes) -> None:
    await conversation.send(data.decode())
