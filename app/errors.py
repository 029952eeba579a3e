"""Every error raised on purpose, as a tree split by what the caller should do.

An expected outcome (denied, not found, stale) is a return value, not an error.
"""

from __future__ import annotations

from collections.abc import Sequence


class VmscalerError(Exception):
    """Root of all errors raised on purpose; its text is one line that an operator can act on."""


class ConfigurationError(VmscalerError):
    """The configuration is wrong: stop, tell the operator.

    Attributes:
        problems: one line per mistake, each beginning with the path of the field.
    """

    def __init__(self, problems: Sequence[str], *, source: str = "configuration") -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__(f"{source}: " + "; ".join(self.problems))


class InvalidInput(VmscalerError):
    """Bytes or text from outside that can't be what they claim to be; nothing was changed.

    Attributes:
        where: the field, file:line, metric or peer that is wrong.
        problem: what is wrong with it.
    """

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}")


class NewerVersion(InvalidInput):
    """What another process has stored is of a newer version than ours: leave it as it is."""


class PeerError(VmscalerError):
    """A call to another process did not give an answer that can be used.

    Attributes:
        peer: whom we asked, as an operator would name it.
        problem: what happened.
    """

    def __init__(self, peer: str, problem: str) -> None:
        self.peer = peer
        self.problem = problem
        super().__init__(f"{peer}: {problem}")


class PeerTimedOut(PeerError):
    """No answer in time: it may have taken effect. Look before asking again."""


class PeerRefused(PeerError):
    """The peer said no: nothing changed there. Ask again after the retry wait.

    Attributes:
        code: the status that the peer gave, such as an HTTP status; None where there is none.
    """

    def __init__(self, peer: str, problem: str, *, code: int | None = None) -> None:
        super().__init__(peer, problem)
        self.code = code


class PeerUnreachable(PeerError):
    """The request never reached the peer: nothing changed there."""


class StoreUnavailable(PeerError):
    """Redis gave no answer. Nothing that depends on the write may be begun; the next tick tries again."""


class LeasesUnavailable(StoreUnavailable):
    """The API server that has the buckets' leases gave no answer: the same as for Redis, which did."""


class OwnershipLost(VmscalerError):
    """The lease is gone or about to end: drop the work, never retry it here.

    Attributes:
        bucket: whose lease it was.
    """

    def __init__(self, bucket: str, problem: str) -> None:
        self.bucket = bucket
        self.problem = problem
        super().__init__(f"{bucket}: {problem}")


class UsageError(VmscalerError):
    """The operator asked for something that can't be: an unknown VM, an ambiguous name."""


class InternalError(VmscalerError):
    """Our own bug: log it with a trace, count it, go on with the others."""
