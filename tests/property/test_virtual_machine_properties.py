"""Whatever an API server gives, reading it ends with a VM or with the path of what is wrong."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.core.model import ScalingConfig
from app.errors import InvalidInput
from app.protocols.virtual_machine import Selection, is_ours, key_of, read_virtual_machine

SELECTION = Selection("s", "enabled", observe_label="observed")
GOOD: dict[str, Any] = {
    "metadata": {"namespace": "n", "name": "v", "uid": "u", "labels": {"enabled": "true"}, "annotations": {}},
    "spec": {
        "schedulerName": "s",
        "guest": {
            "cpus": {"min": 1, "max": 4, "use": 2},
            "memorySlots": {"min": 1, "max": 8, "use": 2},
            "memorySlotSize": "1Gi",
        },
    },
    "status": {"phase": "Running", "podIP": "10.0.0.1", "node": "a", "cpus": 2, "memorySize": "2Gi"},
}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["1Gi", "-1", "1e999", "0", "250m", "٣", "9" * 70, "{}", '{"min": {"cpu": NaN}}'])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def paths(value: dict[str, Any], way: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, inner in value.items():
        found.append((*way, name))
        if isinstance(inner, dict):
            found += paths(inner, (*way, name))
    return found


EXTRA = [
    ("metadata", "annotations", "autoscaling.neon.tech/bounds"),
    ("metadata", "annotations", "autoscaling.neon.tech/config"),
    ("metadata", "annotations", "autoscaling.neon.tech/billing-endpoint-id"),
    ("metadata", "labels", "neon/endpoint-id"),
]


@given(st.sampled_from(paths(GOOD) + EXTRA), JSON)
def test_rubbish_in_any_field_raises_nothing_but_what_is_wrong(way: tuple[str, ...], value: Any) -> None:
    vm = copy.deepcopy(GOOD)
    inner = vm
    for name in way[:-1]:
        inner = inner[name]
    inner[way[-1]] = value
    is_ours(vm, SELECTION)
    key_of(vm)
    problem = None
    try:
        found = read_virtual_machine(vm, SELECTION, ScalingConfig(0.9, 0.75))
    except InvalidInput as err:
        problem = err.where
    if problem is not None:
        assert problem.startswith(".")
    else:
        assert not found.min.has_field_above(found.max)
        assert not found.use.has_zero_field()
