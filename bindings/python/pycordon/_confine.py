# SPDX-License-Identifier: Apache-2.0
"""confine(): the calling process confines itself."""

from __future__ import annotations

from typing import Any

from . import _cordon
from ._native import caller_home, current_directory
from ._errors import raise_native
from ._policy import Config, make_policy


def confine(config: Config = None, **settings: Any) -> None:
    """Shuts the calling process in, for good and with everything it starts later: Landlock, a
    system call filter, resource limits. There is no way back.

    A policy that needs more than that (network rules, a workspace, limits of a whole tree such as
    ``memory`` and ``wall``) is refused with nothing applied, and so is a process with more than one
    thread. Call it early, before threads are started.
    """
    policy = make_policy(config, settings)
    here = current_directory()
    try:
        _cordon.confine(policy.native(here), cwd=here, home=caller_home())
    except _cordon.Error as error:
        raise_native(error)
