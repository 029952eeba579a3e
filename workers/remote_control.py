"""Which of Celery's remote control commands our workers obey: questions, unless Flower may do more.

Whoever may publish on one channel of Redis can send them, Flower among them, and they are signed by nobody:
`shutdown`, `cancel_consumer` or `revoke` would stop the scaling of VMs. Nothing of ours uses them.
"""

from __future__ import annotations

import logging
from typing import Any

from celery.worker.control import Panel

logger = logging.getLogger(__name__)

QUESTIONS = frozenset(
    {
        "active",
        "active_queues",
        "clock",
        "conf",
        "ping",
        "query_task",
        "registered",
        "reserved",
        "revoked",
        "scheduled",
        "stats",
        # Asked by each receiver of events as it starts: sends one event, changes nothing.
        "heartbeat",
    }
)
"""What Flower's pages ask, none of which changes anything or costs more than a listing."""

REFUSAL = "not obeyed here: flower.readOnly"


def obey_questions_only() -> None:
    """Let workers of this process answer `QUESTIONS` and refuse all else; a second time changes nothing."""
    for name in set(Panel.data) - QUESTIONS:
        Panel.data[name] = _refuse


def _refuse(state: Any, **arguments: Any) -> dict[str, str]:
    logger.debug("remote control refused")
    return {"error": REFUSAL}
