"""What a running worker does with a changed configuration."""

from __future__ import annotations

from collections.abc import Callable

from app.bootstrap.reloading import build_reloading
from app.bootstrap.worker import agent_settings
from app.config import Settings
from app.services.agent import Agent
from app.services.reloading import Reloading


def build_worker_reloading(
    settings: Settings, worker: str, agent: Agent, log_anew: Callable[[Settings], None]
) -> Reloading:
    """The agent takes over what it may; `log_anew` lets the process log as its settings say."""

    def apply(newer: Settings) -> None:
        log_anew(newer)
        agent.take_settings(agent_settings(newer, worker))

    return build_reloading(settings, settings.env.config_path, apply)
