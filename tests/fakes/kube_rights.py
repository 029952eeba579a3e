"""Who may do what at the API server double: accounts with rights, as RBAC gives them, and their reviews."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.fakes.kube_resources import ApiError, Json, resource_of

REVIEWS = "selfsubjectaccessreviews"


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Attributes:
        resource: with its subresource, `virtualmachines/status`.
        namespace: "": every one.
    """

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


@dataclass
class Account:
    """One that may do what its rules say, in every namespace.

    Attributes:
        rights: (verb, group, resource).
    """

    user: str
    rights: set[tuple[str, str, str]] = field(default_factory=set)

    def may(self, asked: Request) -> bool:
        return (asked.verb, asked.group, asked.resource) in self.rights


def refuse(asked: Request, user: str) -> ApiError:
    """403, worded as RBAC does; the name is told only where there is one."""
    found = resource_of(asked.resource.partition("/")[0])
    named = f' "{asked.name}"' if asked.name else ""
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    about = (
        f'User "{user}" cannot {asked.verb} resource "{asked.resource}" in API group "{asked.group}" {where}'
    )
    details = {"group": asked.group, "kind": found.name}
    if asked.name:
        details["name"] = asked.name
    details = {name: value for name, value in details.items() if value}
    return ApiError(403, "Forbidden", f"{found.qualified}{named} is forbidden: {about}", details)


def asked_by(review: Json) -> Request:
    """What a SelfSubjectAccessReview asks about."""
    about = review["spec"]["resourceAttributes"]
    resource = about.get("resource", "")
    if about.get("subresource"):
        resource += f"/{about['subresource']}"
    return Request(
        about.get("verb", ""),
        about.get("group", ""),
        resource,
        about.get("namespace", ""),
        about.get("name", ""),
    )


def answer(review: Json, is_allowed: bool) -> Json:
    """The review with its answer."""
    return {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": review["spec"],
        "status": {"allowed": is_allowed},
    }
