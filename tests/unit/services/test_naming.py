import pytest

from app.errors import UsageError
from app.ports.vm import VmKey
from app.services.naming import resolve_name

FLEET = {VmKey("prod/web"), VmKey("prod/db"), VmKey("dev/db"), VmKey("dev/batch-runner")}


def complaint(name: str, known: set[VmKey] = FLEET) -> str:
    with pytest.raises(UsageError) as caught:
        resolve_name(name, known)
    return str(caught.value)


def test_a_full_name_is_taken_as_it_is() -> None:
    assert resolve_name("dev/db", FLEET) == "dev/db"


def test_a_name_that_only_one_vm_has_is_enough() -> None:
    assert resolve_name("web", FLEET) == "prod/web"


def test_a_name_that_several_have_lists_them() -> None:
    assert complaint("db") == "several VMs are called db: dev/db, prod/db; give the namespace too"


def test_an_unknown_name_shows_those_that_look_alike() -> None:
    assert complaint("wep") == "unknown VM wep; near: prod/web"
    assert complaint("stage/web") == "unknown VM stage/web; near: prod/web"
    assert complaint("batch") == "unknown VM batch; near: dev/batch-runner"
    assert complaint("PROD/WEB").startswith("unknown VM PROD/WEB; near: prod/web")


def test_an_unknown_name_like_no_other_points_to_the_list() -> None:
    assert complaint("zzz") == "unknown VM zzz; `vmscaler vm list` shows all"
    assert complaint("a", set()) == "unknown VM a: no VM is known yet"


def test_a_part_of_a_name_or_an_empty_one_is_never_taken_for_a_vm() -> None:
    assert "unknown VM" in complaint("we")
    assert "unknown VM" in complaint("")
    assert "unknown VM" in complaint("prod/")
    assert "unknown VM" in complaint("prod")


def test_a_hostile_name_is_escaped_and_cut() -> None:
    text = complaint("\x1b[2J\n" * 5000)
    assert text.isprintable()
    assert len(text) < 200


def test_many_candidates_are_cut_short() -> None:
    text = complaint("same", {VmKey(f"ns{i}/same") for i in range(50)})
    assert "and 42 more" in text
