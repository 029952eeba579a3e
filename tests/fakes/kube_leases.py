"""What an API server checks of a Lease."""

from __future__ import annotations

import re

from tests.fakes.kube_resources import ApiError, Json, invalid

_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


def check_lease(item: Json) -> None:
    """Times have six decimals; a duration is above 0, transitions are not below it.

    Raises:
        ApiError: it is refused.
    """
    spec, causes = item.get("spec") or {}, []
    for name in ("acquireTime", "renewTime"):
        told = spec.get(name)
        if told is not None and not _MICRO_TIME.fullmatch(str(told)):
            said = f'Lease in version "v1" cannot be handled as a Lease: parsing time "{told}"'
            raise ApiError(400, "BadRequest", said)
    for name, least, word in (
        ("leaseDurationSeconds", 1, "greater than"),
        ("leaseTransitions", 0, "greater than or equal to"),
    ):
        told = spec.get(name)
        if told is not None and told < least:
            causes.append(
                {
                    "reason": "FieldValueInvalid",
                    "message": f"Invalid value: {told}: must be {word} 0",
                    "field": f"spec.{name}",
                }
            )
    if causes:
        raise invalid("leases", item["metadata"]["name"], causes)
