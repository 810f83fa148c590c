# SPDX-License-Identifier: Apache-2.0
"""What an interpreter and its host say to each other, over the channel of a run.

To the driver: ``KIND TOKEN SIZE\\n`` and SIZE bytes. Kinds: ``exec`` (code), ``set`` (variables),
``get`` (a name), ``sync`` (how many interrupts to wait for). From the driver: ``TOKEN JSON\\n``, then
the parts whose sizes the JSON has under "parts". Types: ``hello`` (token ``-``), ``display``, and one
of ``end``, ``value``, ``refused`` for each request.

The token is random and new for each request. The driver shares its process with the code, so the code
can say anything that the driver can: what comes is strictly checked and bounded, and whatever does not
fit ends the interpreter. It can lie about its own results, and about nothing else.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

HEAD_MAX = 1 << 16  # bytes of a message's first line
PARTS_MAX = 64
_CHUNK = 1 << 18
_FIELDS: Dict[str, Dict[str, type]] = {
    "hello": {"version": str},
    "display": {"mimes": list},
    "end": {"mimes": list, "count": int, "signals": int, "error": str, "status": int, "exited": bool},
    "value": {"kind": str},
    "refused": {},
}


class ProtocolError(Exception):
    """The other side said something that makes no sense."""


@dataclass(frozen=True)
class Message:
    """One message of the driver."""

    token: str
    type: str
    fields: Dict[str, Any]
    parts: Tuple[bytes, ...]

    def bundle(self) -> Dict[str, bytes]:
        """The parts by their types."""
        mimes = self.fields.get("mimes", [])
        if len(mimes) != len(self.parts) or not all(isinstance(mime, str) for mime in mimes):
            raise ProtocolError("types and parts do not fit")
        return dict(zip(mimes, self.parts))


def _number(text: str) -> int:
    if len(text) > 15:
        raise ValueError("a number is too long")
    return int(text)


def _parse(line: bytes) -> Tuple[str, str, Dict[str, Any], List[int]]:
    try:
        token, text = line.decode("ascii").split(" ", 1)
        fields = json.loads(text, parse_int=_number)
    except (ValueError, RecursionError):
        raise ProtocolError("a message is not understood") from None
    if not isinstance(fields, dict):
        raise ProtocolError("a message has no fields")
    kind, sizes = fields.pop("type", None), fields.pop("parts", None)
    known = _FIELDS.get(kind) if isinstance(kind, str) else None
    if known is None or not isinstance(sizes, list) or len(sizes) > PARTS_MAX:
        raise ProtocolError("a message is of no known type")
    for name, value in fields.items():
        if name not in known or type(value) is not known[name]:
            raise ProtocolError("a message has a field that it cannot have")
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ProtocolError("a message has sizes that are none")
    return token, str(kind), fields, sizes


class Channel:
    """The host's end. Never blocks. Descriptors that the guest sends are dropped by the kernel:
    nothing here has a place for them."""

    def __init__(self, fd: int, limit: int) -> None:
        # A copy: the run closes its own whenever it likes.
        self._socket = socket.socket(fileno=os.dup(fd))
        self._socket.setblocking(False)
        self._limit = limit
        self._out = bytearray()
        self._in = bytearray()
        self._head: Optional[Tuple[str, str, Dict[str, Any], List[int]]] = None
        self.is_closed = False

    def fileno(self) -> int:
        """To wait for it."""
        return self._socket.fileno()

    @property
    def has_more_to_send(self) -> bool:
        """Whether to wait until it can be written to."""
        return bool(self._out) and not self.is_closed

    def send(self, data: bytes) -> None:
        """Sends, now or later."""
        self._out += data
        self.flush()

    def flush(self) -> None:
        """Sends what the other side takes."""
        while self._out and not self.is_closed:
            try:
                with memoryview(self._out) as view:
                    sent = self._socket.send(view[:_CHUNK], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:
                self.is_closed = True
                return
            del self._out[:sent]

    def receive(self) -> List[Message]:
        """What has come. Reads no more than one message may have before it looks at that."""
        found: List[Message] = []
        while not self.is_closed:
            try:
                data = self._socket.recv(_CHUNK)  # never recvmsg(): see above
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.is_closed = True
            self._in += data
            self._take(found)
            if found:
                break
        return found

    def _take(self, found: List[Message]) -> None:
        while True:
            if self._head is None:
                end = self._in.find(b"\n", 0, HEAD_MAX)
                if end < 0:
                    if len(self._in) >= HEAD_MAX:
                        raise ProtocolError("a message has no end")
                    return
                self._head = _parse(bytes(self._in[:end]))
                del self._in[: end + 1]
                if sum(self._head[3]) > self._limit:
                    raise ProtocolError("a message is too large")
            token, kind, fields, sizes = self._head
            if len(self._in) < sum(sizes):
                return
            parts, begin = [], 0
            for size in sizes:
                parts.append(bytes(self._in[begin : begin + size]))
                begin += size
            del self._in[:begin]
            self._head = None
            found.append(Message(token, kind, fields, tuple(parts)))

    def close(self) -> None:
        """No more."""
        self.is_closed = True
        self._socket.close()
