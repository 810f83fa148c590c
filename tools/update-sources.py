#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keep the explicit source lists of the meson.build files equal to what is on disk.

    tools/update-sources.py            rewrite the lists (after adding or removing a file)
    tools/update-sources.py --check    only say what differs; exit 1 if anything does

Meson wants lists rather than globs so that a build never depends on stray files; this keeps them
true without anybody typing them.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# (meson.build, variable, glob relative to that file's directory)
LISTS = [
    ("include/meson.build", "public_headers", "cordon/*.h"),
    ("src/base/meson.build", "base_sources", "*.c"),
    ("src/format/meson.build", "format_sources", "*.c"),
    ("src/bare/meson.build", "bare_sources", "*.c"),
    ("src/sys/meson.build", "sys_sources", "*.c"),
    ("src/seccomp/meson.build", "seccomp_sources", "*.c"),
    ("src/net/meson.build", "net_sources", "*.c"),
    ("src/git/meson.build", "git_sources", "*.c"),
    ("src/policy/meson.build", "policy_sources", "*.c"),
    ("src/probe/meson.build", "probe_sources", "*.c"),
    ("src/discover/meson.build", "discover_sources", "*.c"),
    ("src/device/meson.build", "device_sources", "*.c"),
    ("src/workspace/meson.build", "workspace_sources", "*/*.c"),
    ("src/plan/meson.build", "plan_sources", "*.c"),
    ("src/init/meson.build", "init_sources", "**/*.c"),
    ("src/gateway/meson.build", "gateway_sources", "*.c"),
    ("src/meter/meson.build", "meter_sources", "*.c"),
    ("src/launch/meson.build", "launch_sources", "*.c"),
    ("src/packages/meson.build", "packages_sources", "*.c"),
    ("src/api/meson.build", "api_sources", "*.c"),
    ("cmd/cordon/meson.build", "command_sources", "**/*.c"),
    ("cmd/cordon/meson.build", "template_sources", "templates/**/*"),
    ("bindings/python/meson.build", "binding_sources", "src/*.c"),
    ("bindings/python/meson.build", "package_sources", "pycordon/**/*.py"),
    ("man/meson.build", "man_sources", "*.scd"),
    ("tests/meson.build", "unit_tests", "unit/test_*.c"),
    ("tests/meson.build", "torture_tests", "torture/test_*.c"),
    ("tests/meson.build", "support_sources", "lib/*.c"),
    ("tests/meson.build", "example_sources", "../examples/c/*.c"),
    ("fuzz/meson.build", "fuzz_targets", "fuzz_*.c"),
]


def rewrite(text, variable, names):
    pattern = re.compile(rf"(^{variable} = files\(\n)(.*?)(^\)$)", re.M | re.S)
    if not pattern.search(text):
        raise SystemExit(f"update-sources: no list '{variable} = files(' found")
    body = "".join(f"  '{name}',\n" for name in names)
    return pattern.sub(lambda m: m.group(1) + body + m.group(3), text, count=1)


def wanted(directory, glob):
    prefix = ""
    while glob.startswith("../"):
        directory, glob, prefix = directory.parent, glob[3:], prefix + "../"
    return sorted(prefix + p.relative_to(directory).as_posix() for p in directory.glob(glob) if p.is_file())


def main():
    check = "--check" in sys.argv[1:]
    stale = 0
    for build_file, variable, glob in LISTS:
        path = ROOT / build_file
        old = path.read_text()
        new = rewrite(old, variable, wanted(path.parent, glob))
        if new == old:
            continue
        stale += 1
        if check:
            print(f"{build_file}: {variable} is not what is on disk: run tools/update-sources.py")
        else:
            path.write_text(new)
            print(f"{build_file}: {variable} updated")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
