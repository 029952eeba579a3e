"""What a worker's metrics page reads as it is made, and the queues, which are asked now and then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict

from app.errors import StoreUnavailable
from app.ports import agent_metrics as agent_names
from app.ports import own_metrics as own
from app.ports.runtime import SHARED_QUEUE, QueueLengths, Signal
from app.ports.store import BucketName, FencingToken
from app.services.agent import Agent
from app.services.stats import Stats

QUEUES_EVERY_S = 5.0
"""How often the queues are asked: not by each scrape, which a Redis that is away must not hold up."""


class WorkerReadings:
    """A part of the agent that only reads; `read` is called as a page is made."""

    def __init__(self, agent: Agent, stats: Stats, queues: QueueLengths, jobs: Callable[[], int]) -> None:
        self._agent = agent
        self._stats = stats
        self._queues = queues
        self._jobs = jobs

    def jobs(self) -> Mapping[str, Callable[[Signal], None]]:
        """See `AgentPart.jobs`."""
        return {"queue lengths": self._run}

    def acquired(self, bucket: BucketName, token: FencingToken) -> None:
        """Nothing is kept by bucket."""

    def lost(self, bucket: BucketName) -> None:
        """Nothing is kept by bucket."""

    def counters(self) -> Mapping[str, int]:
        """None."""
        return {}

    def problems(self) -> list[str]:
        """None."""
        return []

    def read(self) -> None:
        """Set what is read elsewhere; waits for nobody."""
        self._read_runners()
        own.BUCKETS.set(self._agent.ownership.total)
        own.LEASES_HELD.set(len(self._agent.held_buckets()))
        own.MONITORS.set(self._agent.supervisor.monitors_connected)
        own.JOBS.set(self._jobs())
        own.PROBLEMS.set(len(self._agent.problems()))
        self._read_counters(self._agent.counters())
        counts = asdict(self._stats.forwarder.counts)
        for fate in own.FATES:
            own.STATS.set(counts[fate], fate)
        own.STATS_INBOX.set(self._stats.forwarder.in_hand)

    def _read_runners(self) -> None:
        found: dict[tuple[str, ...], int] = dict.fromkeys(agent_names.RUNNERS.all_values(), 0)
        for _, life, runner in self._agent.supervisor.lives():
            has_endpoint = runner is not None and runner.vm.endpoint_id is not None
            status = runner.status if runner is not None else life.end.kind.value if life.end else ""
            place = ("true" if has_endpoint else "false", status)
            if place in found:
                found[place] += 1
        for values, count in found.items():
            agent_names.RUNNERS.set(count, *values)
        counts = self._agent.supervisor.counts
        agent_names.STARTS.set(counts.starts)
        agent_names.RESTARTS.set(counts.restarts)
        agent_names.PANICS.set(counts.panics)
        agent_names.FATAL_ERRORS.set(counts.errors)

    def _read_counters(self, counts: Mapping[str, int]) -> None:
        """Of billing and scaling events, where this worker has them."""
        for sink in own.SINKS:
            if (waiting := counts.get(f"billing_{sink}_waiting")) is not None:
                own.BILLING_WAITING.set(waiting, sink)
                for end in own.BILLING.labels["end"]:
                    own.BILLING.set(counts[f"billing_{sink}_{end}"], sink, end)
        if "billing_dropped" in counts:
            own.BILLING_DROPPED.set(counts["billing_dropped"])
        if waiting_events := _of_events(counts, "waiting"):
            own.EVENTS_WAITING.set(sum(waiting_events))
            for end in own.EVENTS.labels["end"]:
                own.EVENTS.set(sum(_of_events(counts, end)), end)

    def _run(self, stop: Signal) -> None:
        while not stop.is_set():
            self.ask_queues()
            stop.wait(QUEUES_EVERY_S)

    def ask_queues(self) -> None:
        """How much waits; nothing is known of it while Redis gives no answer."""
        try:
            shared = self._queues.waiting([SHARED_QUEUE])
            of_buckets = self._queues.waiting(self._agent.held_buckets())
        except StoreUnavailable:
            own.QUEUED.clear()
        else:
            own.QUEUED.set(shared, "shared")
            own.QUEUED.set(of_buckets, "buckets")


def _of_events(counts: Mapping[str, int], what: str) -> list[int]:
    """A counter of each delivery, whose name stands in its middle."""
    return [
        count for name, count in counts.items() if name.startswith("events_") and name.endswith(f"_{what}")
    ]
