# SPDX-License-Identifier: Apache-2.0
"""The driver's own interface, without any framework: says at which call it fails."""

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    code = getattr(cuda, name)(*args)
    print(name, code, flush=True)
    if code:
        sys.exit(1)


count, device, context, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
call("cuInit", 0)
call("cuDeviceGetCount", ctypes.byref(count))
print("count", count.value)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 20))
call("cuMemsetD8_v2", memory, ctypes.c_ubyte(7), ctypes.c_size_t(1 << 20))
data = (ctypes.c_ubyte * (1 << 20))()
call("cuMemcpyDtoH_v2", data, memory, ctypes.c_size_t(1 << 20))
print("right" if bytes(data) == b"\7" * (1 << 20) else "WRONG")
