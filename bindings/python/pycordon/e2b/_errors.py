# SPDX-License-Identifier: Apache-2.0
"""Errors under the names that E2B gives them, and what becomes of Cordon's and the system's."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import Iterator, NoReturn, Optional

from .._errors import ClosedError, CordonError, PolicyError, UsageError


class SandboxException(Exception):
    """Base of the errors here."""

    status_code: Optional[int] = None

    def __init__(self, *args: object, status_code: Optional[int] = None) -> None:
        super().__init__(*args)
        self.status_code = status_code


class TimeoutException(SandboxException):
    """The time of a command, of code or of the sandbox is over."""


class InvalidArgumentException(SandboxException):
    """An argument makes no sense, or asks for something that there is not here."""


class NotEnoughSpaceException(SandboxException):
    """The limit of disk space is reached."""


class NotFoundException(SandboxException):
    """Something is not there."""


class FileNotFoundException(NotFoundException):
    """A file or directory is not there."""


class SandboxNotFoundException(NotFoundException):
    """No sandbox of this process has that id."""


class SandboxNotRunningException(TimeoutException):
    """The sandbox was killed, or its time is over."""


class AuthenticationException(Exception):
    """Never raised here: nobody has to log in."""


class RateLimitException(SandboxException):
    """Too many sandboxes of this process are running."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args, status_code=429)


_FILES = {
    errno.ENOENT: FileNotFoundException,
    errno.ENOSPC: NotEnoughSpaceException,
    errno.EDQUOT: NotEnoughSpaceException,
    errno.EISDIR: InvalidArgumentException,
    errno.ENOTDIR: InvalidArgumentException,
    errno.EINVAL: InvalidArgumentException,
    errno.ENAMETOOLONG: InvalidArgumentException,
}


@contextmanager
def translated() -> Iterator[None]:
    """Errors of Cordon and of the file system become those of E2B."""
    try:
        yield
    except OSError as error:
        raise _FILES.get(error.errno or 0, SandboxException)(str(error)) from error
    except ClosedError as error:
        raise SandboxNotRunningException(str(error)) from error
    except (UsageError, PolicyError) as error:
        raise InvalidArgumentException(str(error)) from error
    except CordonError as error:
        raise SandboxException(str(error)) from error


def not_here(what: str, instead: str = "") -> NoReturn:
    """For what E2B has and a sandbox on this machine has not."""
    raise InvalidArgumentException(f"{what} is not available in pycordon.e2b" + (f": {instead}" if instead else ""))
