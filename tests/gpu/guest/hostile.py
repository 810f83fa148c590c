# SPDX-License-Identifier: Apache-2.0
"""Looks for other GPUs and nodes, and for what outlives it. Prints what it found as JSON."""

import json
import os
import stat
import sys

found = {"nodes": [], "opened": [], "written": [], "made": [], "gpus": [], "sys": os.path.exists("/sys")}
for top, dirs, files in os.walk("/"):
    if top == "/proc":
        dirs[:] = []
        continue
    for name in files + dirs:
        path = os.path.join(top, name)
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            found["nodes"].append(path)
guesses = [f"/dev/nvidia{i}" for i in range(16)] + [f"/dev/nvidia-caps/nvidia-cap{i}" for i in range(64)]
guesses += ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset", "/dev/nvidia-nvswitchctl"]
guesses += ["/dev/nvidia-nvlink", "/dev/dri/card0", "/dev/dri/renderD128", "/dev/kmsg", "/dev/mem", "/dev/kvm", "/dev/vda"]
for path in guesses:
    for flags in (os.O_RDWR, os.O_RDONLY):
        try:
            os.close(os.open(path, flags | os.O_NONBLOCK))
            found["opened"].append(path)
            break
        except OSError:
            pass
for major, minor in ((195, 0), (195, 1), (195, 255), (1, 1)):
    for place in ("/tmp", "/dev", "/dev/shm"):
        try:
            os.mknod(f"{place}/n{major}-{minor}", stat.S_IFCHR | 0o666, os.makedev(major, minor))
            found["made"].append(f"{place} {major}:{minor}")
        except OSError:
            pass
for top, _, files in os.walk("/proc/driver/nvidia"):
    for name in files:
        try:
            os.close(os.open(os.path.join(top, name), os.O_WRONLY))
            found["written"].append(os.path.join(top, name))
        except OSError:
            pass
try:
    gpus = os.listdir("/proc/driver/nvidia/gpus")
except OSError:
    gpus = []
for name in gpus:
    try:
        with open(f"/proc/driver/nvidia/gpus/{name}/information", encoding="utf-8") as f:
            found["gpus"].append(f.read(4096))
    except OSError:
        pass
json.dump(found, sys.stdout)
