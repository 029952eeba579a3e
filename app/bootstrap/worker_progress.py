"""What a worker knows of its own progress, wired to its queues, its registry entry and its HTTP server."""

from __future__ import annotations

import math
from functools import partial

from app.bootstrap.stores import Stores
from app.bootstrap.worker_web import WorkerWeb
from app.config import Settings
from app.ports.runtime import SHARED_QUEUE
from app.protocols.printable import printable
from app.services.agent import Agent
from app.services.progress import TURN_S, Progress, ProgressLimits
from app.web.health import add_health_page
from app.web.ready import add_ready_page


def watch_progress(settings: Settings, stores: Stores, agent: Agent, web: WorkerWeb) -> None:
    """Let the agent keep account of its progress, and `/healthz` tell it."""
    limits = ProgressLimits(
        blocked=math.ceil(settings.watchdog.loop_blocked_seconds / TURN_S),
        idle=math.ceil(settings.watchdog.no_tasks_seconds / TURN_S),
    )
    progress = Progress(limits, stores.queues, lambda: [SHARED_QUEUE, *agent.held_buckets()])
    agent.watch(progress)
    add_health_page(web.application, progress)
    add_ready_page(web.application, partial(_reasons, agent, progress))


def _reasons(agent: Agent, progress: Progress) -> list[str]:
    """Why the worker can't do its work now."""
    if agent.is_stopping:
        return ["it is being stopped"]
    inventory = agent.supervisor.inventory
    reasons = [] if inventory.is_ready else ["the platform's VMs are not known yet"]
    told = [inventory.problem, agent.ownership.problem, progress.redis_problem, *progress.problems()]
    return [printable(reason) for reason in (*reasons, *told) if reason]
