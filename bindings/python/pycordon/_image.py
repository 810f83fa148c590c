# SPDX-License-Identifier: Apache-2.0
"""An interpreter that was written down while it ran, and what goes on from that.

The image is a memory file. What is in it comes from the guest and is looked at by nobody here: it is
executed by runs of the same policy, behind all their layers. The host writes the file itself, from what
comes over the channel, so the guest never has a descriptor of it that could change it.
"""

from __future__ import annotations

import fcntl
import os
import platform
import weakref
from functools import lru_cache
from typing import TYPE_CHECKING, Optional

from ._errors import SystemCallError, UnsupportedError
from ._interpreters import Kind, driver_text
from ._warm import memory_file, seal

if TYPE_CHECKING:
    from ._engine import Engine

_LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_fork.abi3.so")
#: Of programs and libraries, which an image has besides the data that limits.memory counts.
_PROGRAMS_BYTES = 512 << 20
#: Without limits.memory.
_IMAGE_MAX = 64 << 30
FREEZE_SECONDS = 120.0
FORKS_MAX = 10_000  # of one call


@lru_cache(maxsize=None)
def _library() -> bytes:
    with open(_LIBRARY, "rb") as file:
        return file.read()


def freezer() -> bytes:
    """What a driver needs to freeze its process: text, and a library."""
    text = driver_text("python_fork.py").encode()
    return b"%d\n%s%s" % (len(text), text, _library())


def check_kind(kind: Kind) -> None:
    """Whether an interpreter of this kind can be forked at all."""
    if kind.name != "python":
        raise UnsupportedError(f"a {kind.name} interpreter cannot be forked", hint="only Python can")
    if not os.path.exists(_LIBRARY):
        raise UnsupportedError(f"interpreters cannot be forked on {platform.machine()}", hint="only on x86_64")


def check_engine(engine: "Engine") -> None:
    """Whether interpreters of this sandbox can be forked."""
    if not engine.settings.persist:
        raise UnsupportedError(
            "a sandbox without persist has its files in memory, where a fork cannot copy them",
            hint="leave persist=True",
        )
    if engine.level == "landlock":
        raise UnsupportedError("interpreters cannot be forked at level landlock")


class Image:
    """The memory of an interpreter. It is gone when nobody has this object any more, and no run."""

    def __init__(self) -> None:
        self.fd = memory_file("cordon-fork")
        self._end = weakref.finalize(self, os.close, self.fd)

    @property
    def size(self) -> int:
        """Its bytes."""
        return os.fstat(self.fd).st_size

    @staticmethod
    def most(memory_bytes: Optional[int]) -> int:
        """The largest that an interpreter within this limit can need."""
        return _IMAGE_MAX if not memory_bytes else min(_IMAGE_MAX, memory_bytes + _PROGRAMS_BYTES)

    def seal(self) -> None:
        """It is complete."""
        seal(self.fd)

    def lend(self) -> int:
        """A descriptor for one run, which the caller closes. A run whose user owns the file can change
        its mode and attributes, though not its content: they are set right before each use."""
        try:
            if os.fstat(self.fd).st_mode & 0o777 != 0o555:
                os.fchmod(self.fd, 0o555)
            for name in os.listxattr(self.fd):
                os.removexattr(self.fd, name)
            return fcntl.fcntl(self.fd, fcntl.F_DUPFD_CLOEXEC, 3)
        except OSError as error:
            raise SystemCallError(f"the image of a fork cannot be used: {error.strerror}") from None

    def close(self) -> None:
        """Gives the memory back now."""
        self._end()
