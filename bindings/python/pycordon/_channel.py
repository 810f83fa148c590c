# SPDX-License-Identifier: Apache-2.0
"""What an interpreter and its host say to each other, over the channel of a run.

To the driver: ``KIND TOKEN SIZE\\n`` and SIZE bytes. Kinds: ``exec`` (code), ``set`` (variables),
``get`` (a name), ``sync`` (how many interrupts to wait for), ``freeze`` (what the driver needs for that,
once). From the driver: ``TOKEN JSON\\n``, then the parts whose sizes the JSON has under "parts". Types:
``hello`` (token ``-``), ``display``, ``image`` (one part, which goes into a file), and one of ``end``,
``value``, ``refused`` for each request.

The token is random and new for each request. The driver shares its process with the code, so the code
can say anything that the driver can: what comes is strictly checked and bounded, and whatever does not
fit ends the interpreter. It can lie about its own results, and about nothing else.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

if TYPE_CHECKING:
    from ._image import Image

HEAD_MAX = 1 << 16  # bytes of a message's first line
PARTS_MAX = 64
_CHUNK = 1 << 18
_IMAGE_CHUNK = 1 << 20
_IMAGE_CHUNKS = 16  # at once: an event loop has other things to do. More than a socket holds.
_FIELDS: Dict[str, Dict[str, type]] = {
    "hello": {"version": str},
    "display": {"mimes": list},
    "end": {"mimes": list, "count": int, "signals": int, "error": str, "status": int, "exited": bool},
    "value": {"kind": str},
    "refused": {},
    "image": {},
}


def write_all(fd: int, data: memoryview) -> None:
    """All of it, into a file."""
    while data:
        data = data[os.write(fd, data) :]


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
        self._expected: Optional[Tuple[Image, int]] = None  # where one may go, and its bytes at most
        self._image: Optional[Image] = None  # where the one that comes goes
        self._left = 0  # bytes of the image that are still to come
        self._chunk = bytearray()
        self._image_error: Optional[OSError] = None
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

    def expect_image(self, image: "Image", most: int) -> None:
        """One may come now, of ``most`` bytes."""
        self._expected, self._image_error = (image, most), None

    def end_image(self) -> None:
        """None may come any more. OSError: what came could not be written."""
        self._expected = self._image = None
        error, self._image_error = self._image_error, None
        if error is not None:
            raise error

    def _write_image(self, data: memoryview) -> None:
        """What cannot be written is read all the same, so that the interpreter can go on."""
        try:
            if self._image is not None and self._image_error is None:
                write_all(self._image.fd, data)
        except OSError as error:
            self._image_error = error

    def _receive_image(self) -> bool:
        """Some of its bytes, from the socket into the file. False: there are none now."""
        if not self._chunk:
            self._chunk = bytearray(_IMAGE_CHUNK)
        with memoryview(self._chunk) as view:
            try:
                count = self._socket.recv_into(view[: min(self._left, _IMAGE_CHUNK)])
            except BlockingIOError:
                return False
            except OSError:
                count = 0
            if count == 0:
                self.is_closed = True
            self._write_image(view[:count])
        self._left -= count
        if self._left == 0:
            self._chunk = bytearray()
        return True

    def receive(self) -> List[Message]:
        """What has come. Reads no more than one message may have before it looks at that, and of an image
        no more than a few pieces."""
        found: List[Message] = []
        chunks = 0
        while not self.is_closed:
            if self._left > 0:
                chunks += 1
                if chunks > _IMAGE_CHUNKS or not self._receive_image():
                    break
                continue
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
                if self._head[1] == "image":
                    self._begin_image(found)
                    if self._left > 0:
                        return
                    continue
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

    def _begin_image(self, found: List[Message]) -> None:
        assert self._head is not None
        (token, kind, fields, sizes), self._head = self._head, None
        if self._expected is None:
            raise ProtocolError("an image was not asked for")
        if len(sizes) != 1 or not 0 < sizes[0] <= self._expected[1]:
            raise ProtocolError("an image is too large")
        self._image, self._expected = self._expected[0], None
        found.append(Message(token, kind, fields, ()))
        first = min(len(self._in), sizes[0])
        self._write_image(memoryview(bytes(self._in[:first])))
        del self._in[:first]
        self._left = sizes[0] - first

    def is_at_end(self) -> bool:
        """Whether the other side has closed it, and nothing is left to be read."""
        try:
            return not self.is_closed and not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return False

    def give_up(self) -> None:
        """A rule was broken: nothing that comes after that counts."""
        self.is_closed = True

    def close(self) -> None:
        """No more."""
        self.is_closed = True
        self._socket.close()
