# SPDX-License-Identifier: Apache-2.0
"""A framework's terms for a run, in Cordon's: limits on the way in, standard error on the way out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional

from .._keys import find_key, magnitude
from ._common import remark

if TYPE_CHECKING:
    from pycordon import Policy, Result


def limits(policy: Policy, timeout: Optional[float], max_output: Optional[int]) -> dict[str, Any]:
    """Arguments of run() for a framework's limits.

    What the policy states holds: a framework's larger value does not replace it. Where neither says
    anything about time there is no limit, as frameworks expect of a missing timeout.
    """
    stated = policy.get("limits_wall")
    if timeout is None:
        timeout = None if stated is not None else math.inf
    elif _less(policy, "limits_wall", timeout):
        timeout = None
    if max_output is not None and _less(policy, "max_output_bytes", max_output):
        max_output = None
    return {"timeout": timeout, "max_output": max_output}


def _less(policy: Policy, name: str, value: float) -> bool:
    """Whether the policy states less than that."""
    stated = policy.get(name)
    known = None if stated is None else magnitude(find_key(name), stated)
    return known is not None and known < value


def stderr_text(result: Result) -> str:
    """Standard error, and after it what only the sandbox knows: limits reached, things refused."""
    note = remark(result)
    if not note or not result.stderr:
        return result.stderr or note
    return result.stderr.rstrip("\n") + "\n" + note
