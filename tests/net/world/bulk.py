# SPDX-License-Identifier: Apache-2.0
"""A long stream of bytes that both sides can make: blocks with a number, so that none can be
missing, doubled or moved without a different checksum."""

import hashlib
import random
import struct

BLOCK = 1 << 18
_body = random.Random(1).randbytes(BLOCK - 8)


def pieces(size):
    number = 0
    while size > 0:
        piece = struct.pack(">Q", number) + _body
        yield piece if size >= BLOCK else piece[:size]
        size -= BLOCK
        number += 1


def digest(size):
    total = hashlib.sha256()
    for piece in pieces(size):
        total.update(piece)
    return total.hexdigest()


def consume(sock):
    """Reads to the end: how much it was, and its checksum."""
    total, count, buffer = hashlib.sha256(), 0, bytearray(BLOCK)
    while n := sock.recv_into(buffer):
        total.update(memoryview(buffer)[:n])
        count += n
    return count, total.hexdigest()
