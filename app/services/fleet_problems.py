"""What is wrong with the list of VMs that a worker follows, for an operator."""

from __future__ import annotations

from app.services.supervisor import Supervisor
from app.services.wording import count_text


def fleet_problems(supervisor: Supervisor) -> list[str]:
    """The platform's silence, VMs that can't be read, and those that a newer version has; a sentence each."""
    inventory = supervisor.inventory
    problems = [inventory.problem] if inventory.problem else []
    if inventory.unreadable:
        name, what = next(iter(sorted(inventory.unreadable.items())))
        problems.append(
            f"{len(inventory.unreadable)} VMs can't be read, so they are left alone: {name}: {what}"
        )
    left_alone = supervisor.left_alone()
    if left_alone:
        problems.append(
            f"{count_text(len(left_alone), 'VM')} left alone, since a newer version wrote their records "
            f"(upgrade this worker): {left_alone[0]}"
        )
    return problems
