from __future__ import annotations

from app.ports.platform import Cursor, InventoryChange
from app.ports.vm import VirtualMachine
from app.services.inventory import Inventory
from tests.service_builders import a_virtual_machine, moved


class NoPlatform:
    """Nothing here is asked."""


class Seen:
    def __init__(self) -> None:
        self.updated: list[str] = []
        self.removed: list[str] = []
        self.lists = 0
        self.inventory = Inventory(
            NoPlatform(),  # type: ignore[arg-type]
            lambda vm: self.updated.append(vm.uid),
            self.removed.append,
            self._listed,
            0.5,
        )

    def _listed(self) -> None:
        self.lists += 1

    def take(self, *vms: VirtualMachine, is_full: bool = False, **more: object) -> None:
        self.inventory.take(InventoryChange(Cursor("1"), is_full, tuple(vms), **more))  # type: ignore[arg-type]


def test_a_vm_is_told_when_it_is_new_or_changed_and_not_otherwise() -> None:
    seen = Seen()
    vm = a_virtual_machine()
    seen.take(vm, is_full=True)
    seen.take(vm, is_full=True)
    seen.take(a_virtual_machine(observed=moved(vm.use, cpu=250)))
    assert seen.updated == ["uid-1", "uid-1"]
    assert seen.lists == 2


def test_what_a_whole_list_does_not_name_is_gone() -> None:
    seen = Seen()
    seen.take(a_virtual_machine(), a_virtual_machine(name="web"), is_full=True)
    seen.take(a_virtual_machine(name="web"), is_full=True)
    assert seen.removed == ["default/db"]


def test_a_list_of_changes_takes_nothing_away_but_what_it_names() -> None:
    seen = Seen()
    seen.take(a_virtual_machine(), a_virtual_machine(name="web"), is_full=True)
    seen.take(removed=("default/web",))
    assert seen.removed == ["default/web"]
    assert list(seen.inventory.vms) == ["default/db"]


def test_a_vm_that_cannot_be_read_for_the_moment_is_not_taken_for_gone() -> None:
    seen = Seen()
    seen.take(a_virtual_machine(), is_full=True)
    seen.take(is_full=True, unreadable=(("default/db", ".max: is missing"),))
    assert seen.removed == []


def test_another_vm_under_the_same_name_replaces_the_first() -> None:
    seen = Seen()
    seen.take(a_virtual_machine(), is_full=True)
    seen.take(a_virtual_machine(uid="uid-2"))
    assert seen.removed == ["default/db"]
    assert seen.updated == ["uid-1", "uid-2"]
