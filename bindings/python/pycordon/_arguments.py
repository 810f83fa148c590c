# SPDX-License-Identifier: Apache-2.0
"""Checks arguments early, so that an error names the argument."""

from __future__ import annotations

import operator
import os
from typing import Any, Dict, List, Mapping, Optional

from ._errors import UsageError


def _for_system(name: str, text: str) -> str:
    """Text that can be handed to a program."""
    if "\0" in text:
        raise UsageError(f"{name}: {text[:40]!r} holds a NUL character, which no system call takes")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise UsageError(f"{name}: {ascii(text[error.start])} cannot be encoded") from None
    return text


def path(name: str, value: Any) -> str:
    """A path, as text."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise UsageError(f"{name}: a path is needed, not {type(value).__name__}")
    return _for_system(name, os.fsdecode(value))


def text(name: str, value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise UsageError(f"{name}: a string is needed, not {type(value).__name__}")
    return _for_system(name, value)


def words(name: str, value: Any) -> List[str]:
    """A program and its arguments, or just arguments: strings and paths."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        what = f"a list of strings is needed, not {type(value).__name__}"
        raise UsageError(f"{name}: {what}")
    found: List[str] = []
    for i, word in enumerate(value):
        if not isinstance(word, (str, bytes, os.PathLike)):
            kind = type(word).__name__
            raise UsageError(
                f"{name}[{i}]: a string is needed, not {kind}", hint=f"str({word!r:.40}) makes one"
            )
        found.append(_for_system(f"{name}[{i}]", os.fsdecode(word)))
    return found


def variables(name: str, value: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """Environment variables."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UsageError(f"{name}: a dict of names and values is needed, not {type(value).__name__}")
    for key, content in value.items():
        if not isinstance(key, str) or not key or "=" in key or "\0" in key:
            raise UsageError(f"{name}: {key!r} cannot be a variable's name")
        if not isinstance(content, str):
            kind = type(content).__name__
            raise UsageError(f"{name}[{key!r}]: a string is needed, not {kind}")
        _for_system(f"{name}[{key!r}]", content)
    return dict(value)


def flag(name: str, value: Any) -> bool:
    """True or False; a word like "no" would be ambiguous."""
    if not isinstance(value, bool):
        raise UsageError(f"{name}: True or False is needed, not {value!r:.40}")
    return value


def whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number within bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise UsageError(f"{name}: a whole number is needed, not {type(value).__name__}")
    if not least <= number <= most:
        raise UsageError(f"{name}: {number} is not between {least} and {most}")
    return number


def data(name: str, value: Any) -> bytes:
    """The content of a file or stream: text becomes UTF-8."""
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            bad = ascii(value[error.start])
            raise UsageError(f"{name}: {bad} cannot be encoded as UTF-8") from None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise UsageError(f"{name}: text or bytes are needed, not {type(value).__name__}")


def callback(name: str, value: Any) -> None:
    """Something to call, or None."""
    if value is not None and not callable(value):
        raise UsageError(f"{name}: a function is needed, not {type(value).__name__}")
