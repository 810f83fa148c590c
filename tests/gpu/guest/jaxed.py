# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as np

x = np.arange(1 << 16, dtype=np.float32)
y = jax.jit(lambda v: (v * 2).sum())(x)
assert jax.devices()[0].platform in ("gpu", "cuda"), jax.devices()
print("right" if abs(float(y) - float((1 << 16) * ((1 << 16) - 1))) < 1e6 else "WRONG")
