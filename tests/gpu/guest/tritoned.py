# SPDX-License-Identifier: Apache-2.0
import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)


a, b = torch.rand(10000, device="cuda"), torch.rand(10000, device="cuda")
c = torch.empty_like(a)
add[(triton.cdiv(10000, 1024),)](a, b, c, 10000, BLOCK=1024)
print("right" if torch.equal(c, a + b) else "WRONG")
