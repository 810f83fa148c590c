# SPDX-License-Identifier: Apache-2.0
"""Values as JSON, in both directions between an agent and its sandbox.

The host imports this file, and the interpreter inside gets its text. So it imports nothing but the
standard library, and PIL or numpy only for values that are theirs. There is no pickle in it: what comes
out of the sandbox can be a value, never code. decode() is for the host, too, where every byte is hostile.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime
import decimal
import io
import json  # noqa: F401 - for what runs inside
import pathlib
import re
import sys
from typing import Any, Callable, Dict, List

DEPTH_MAX = 100
PIXELS_MAX = 16 << 20  # of all images of one value
DIGITS_MAX = 1000
ALIKE_MAX = 100  # items of a set or a dict that have one hash
_DTYPE = re.compile(r"(?:bool|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128))\Z")
_PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")
_TAG = "__type__"


def _tagged(kind: str, data: Any) -> Dict[str, Any]:
    return {_TAG: kind, "data": data}


def _image(value: Any) -> str:
    buffer = io.BytesIO()
    (value if value.mode in _PNG_MODES else value.convert("RGB")).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def _of_library(value: Any) -> Any:
    """A value of PIL's or numpy's. A type of theirs needs the library to be imported already."""
    image = sys.modules.get("PIL.Image")
    if image is not None and isinstance(value, image.Image):
        return _tagged("image", _image(value))
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and _DTYPE.match(str(value.dtype)):
        if value.dtype.kind == "c":
            return _tagged("ndarray", [str(value.dtype), encode(value.tolist())])
        return _tagged("ndarray", [str(value.dtype), value.tolist()])
    if numpy is not None and isinstance(value, (numpy.bool_, numpy.integer, numpy.floating)):
        return value.item()
    raise TypeError(
        f"a value of type {type(value).__name__} cannot leave or enter the sandbox: use numbers, text, "
        "bytes, lists, tuples, sets, dicts, dates, images or arrays of numbers"
    )


def encode(value: Any, depth: int = 0) -> Any:
    """The value in terms of JSON. TypeError: it has no place there."""
    if depth > DEPTH_MAX:
        raise TypeError(f"a value is nested more than {DEPTH_MAX} times")
    deeper: Callable[[Any], List[Any]] = lambda items: [encode(item, depth + 1) for item in items]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        if _TAG not in value and all(isinstance(key, str) for key in value):
            return dict(zip(map(str, value), deeper(value.values())))
        return _tagged("dict", [deeper(pair) for pair in value.items()])
    if isinstance(value, list):
        return deeper(value)
    for kind in (tuple, set, frozenset):
        if isinstance(value, kind):
            return _tagged(kind.__name__, deeper(value))
    if isinstance(value, (bytes, bytearray)):
        return _tagged("bytes", base64.b64encode(value).decode())
    if isinstance(value, complex):
        return _tagged("complex", [value.real, value.imag])
    for date in (datetime.datetime, datetime.date, datetime.time):
        if isinstance(value, date):
            return _tagged(date.__name__, value.isoformat())
    if isinstance(value, datetime.timedelta):
        return _tagged("timedelta", [value.days, value.seconds, value.microseconds])
    if isinstance(value, (decimal.Decimal, pathlib.PurePath)):
        return _tagged("Decimal" if isinstance(value, decimal.Decimal) else "path", str(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return encode({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, depth + 1)
    return _of_library(value)


class _Decoder:
    def __init__(self) -> None:
        self._pixels = 0
        self._known: Dict[str, Callable[[Any, int], Any]] = {
            "dict": self._dict,
            "tuple": lambda data, depth: tuple(self._list(data, depth)),
            "set": lambda data, depth: set(self._unalike(self._list(data, depth))),
            "frozenset": lambda data, depth: frozenset(self._unalike(self._list(data, depth))),
            "bytes": lambda data, depth: base64.b64decode(data, validate=True),
            "complex": lambda data, depth: complex(*data),
            "datetime": lambda data, depth: datetime.datetime.fromisoformat(data),
            "date": lambda data, depth: datetime.date.fromisoformat(data),
            "time": lambda data, depth: datetime.time.fromisoformat(data),
            "timedelta": lambda data, depth: datetime.timedelta(*data),
            "Decimal": lambda data, depth: decimal.Decimal(data[:DIGITS_MAX]),
            # Of the sandbox: nothing that reads or writes here.
            "path": lambda data, depth: pathlib.PurePosixPath(data),
            "image": lambda data, depth: self._image(data),
            "ndarray": self._array,
        }

    def _list(self, items: Any, depth: int) -> List[Any]:
        if not isinstance(items, list):
            raise TypeError("a list is missing")
        return [self.value(item, depth + 1) for item in items]

    def _unalike(self, items: List[Any]) -> List[Any]:
        """The items, if a set of them takes no longer than others: whoever chooses numbers chooses their
        hashes, too, and n items with the same one take n * n steps."""
        if max(collections.Counter(map(hash, items)).values(), default=0) > ALIKE_MAX:
            raise ValueError(f"more than {ALIKE_MAX} items of a set or dict have the same hash")
        return items

    def _dict(self, data: Any, depth: int) -> Any:
        pairs = [self._list(pair, depth) for pair in data]
        self._unalike([pair[0] for pair in pairs])
        return dict(pairs)

    def _image(self, data: str) -> Any:
        import PIL.Image

        # Other formats have had readers that start programs.
        image = PIL.Image.open(io.BytesIO(base64.b64decode(data, validate=True)), formats=["PNG"])
        self._pixels += image.width * image.height
        if self._pixels > PIXELS_MAX:
            raise ValueError(f"images have more than {PIXELS_MAX} pixels")
        image.load()
        return image

    def _array(self, said: Any, depth: int) -> Any:
        dtype, data = said
        if not isinstance(dtype, str) or not _DTYPE.match(dtype):
            raise ValueError("an array is of no known type")
        import numpy

        # complex numbers are the only tagged values that an array has
        return numpy.array(self._list(data, depth) if dtype[0] == "c" else data, dtype=dtype)

    def value(self, value: Any, depth: int = 0) -> Any:
        if depth > DEPTH_MAX:
            raise ValueError(f"a value is nested more than {DEPTH_MAX} times")
        if isinstance(value, list):
            return self._list(value, depth)
        if not isinstance(value, dict):
            return value
        if _TAG not in value:
            return {key: self.value(item, depth + 1) for key, item in value.items()}
        return self._known[value[_TAG]](value["data"], depth)


def decode(value: Any) -> Any:
    """What encode() made of a value, from JSON that may say anything. ValueError: that was not it."""
    try:
        return _Decoder().value(value)
    except Exception as error:
        raise ValueError(f"what came back is no value: {type(error).__name__}: {error}"[:500]) from None
