"""What a VM shows to push stats: the HMAC of its key with the fleet's secret, good for this key alone."""

from __future__ import annotations

import hashlib
import hmac

MIN_SECRET_BYTES = 16
"""A shorter secret could be found from one VM's token."""


def vm_token(secret: str, key: str) -> str:
    """HMAC-SHA256 of the key, 64 digits in lower-case hex; the same whenever it is asked for."""
    return hmac.new(secret.encode(), key.encode(), hashlib.sha256).hexdigest()


def is_token_of(secret: str, key: str, token: str) -> bool:
    """Whether it is this key's token; takes as long for a wrong one as for the right one."""
    return hmac.compare_digest(vm_token(secret, key).encode(), token.encode("utf-8", "replace"))
