# SPDX-License-Identifier: Apache-2.0
"""Holds 2 GiB of the GPU for four seconds, working on them; by the driver's interface alone. With `child` a
process of its own does so, which has ended when the program does."""

import ctypes
import os
import sys
import time

SIZE = 2 << 30


def hold():
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *args):
        code = getattr(cuda, name)(*args)
        if code:
            sys.exit(f"{name} {code}")

    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(SIZE))
    end = time.monotonic() + 4
    while time.monotonic() < end:
        for _ in range(20):
            call("cuMemsetD8_v2", memory, ctypes.c_ubyte(7), ctypes.c_size_t(SIZE))
        call("cuCtxSynchronize")
    print("right")


if "child" in sys.argv:
    pid = os.fork()
    if pid == 0:
        hold()
        sys.stdout.flush()
        os._exit(0)
    sys.exit(os.waitpid(pid, 0)[1] != 0)
hold()
