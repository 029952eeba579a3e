"""Whether clocks agree: records, audit trails and usage events carry the time of whoever wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from app.protocols.printable import printable
from app.services.agent_facts import AgentRow
from app.services.checkup import Check, Finding, ok, problem, warning

OFF_MS, FAR_OFF_MS = 1_000, 5_000
"""Beyond what a measurement leaves in doubt: worth a word; times that nobody can rely on."""

_SYNC = "let chrony, ntpd or systemd-timesyncd keep the clock, there and here"


def judge_clock(about: str, offset_ms: int, *, doubt_ms: int, whose: str) -> Finding:
    """What to say of a clock.

    Args:
        offset_ms: that clock less ours.
        doubt_ms: by so much the measurement itself may be wrong.
    """
    off = max(abs(offset_ms) - doubt_ms, 0)
    if off < OFF_MS:
        return ok(about, f"{whose} clock agrees with ours")
    side = "ahead of" if offset_ms > 0 else "behind"
    told = f"{whose} clock is {abs(offset_ms) / 1000:.1f} s {side} ours"
    return problem(about, told, _SYNC) if off >= FAR_OFF_MS else warning(about, told, _SYNC)


def agents_clock_check(read: Callable[[], Sequence[AgentRow]]) -> Check:
    """The clocks of the fleet's processes, by what they said with their last heartbeat, against Redis'."""
    return Check("agents' clocks", lambda: _look(read()), "look at Redis first")


def _look(agents: Sequence[AgentRow]) -> Iterator[Finding]:
    about = "agents' clocks"
    told = [agent for agent in agents if agent.clock_offset_ms is not None]
    if not told:
        yield ok(about, "no process of the fleet runs that could be compared")
        return
    found = [(agent, _judge(agent)) for agent in told]
    bad = [finding for _, finding in found if finding.next_step]
    yield from bad[:10]
    if not bad:
        yield ok(about, f"those of {len(told)} processes agree with Redis'")


def _judge(agent: AgentRow) -> Finding:
    found = judge_clock(
        "agents' clocks",
        agent.clock_offset_ms or 0,
        doubt_ms=500,
        whose=f"{agent.kind} {printable(agent.name, 80)}'s",
    )
    return Finding(found.about, found.verdict, found.text.removesuffix(" ours") + " Redis'", found.next_step)
