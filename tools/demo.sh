#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: demo.sh CORDON. What `make run` shows: a snippet in a sandbox, and its receipt.
set -eu

cordon=$1
snippet='
import os, platform, socket
print("hello from Python", platform.python_version(), "as pid", os.getpid(), "uid", os.getuid())
print("home directory:", os.listdir(os.path.expanduser("~")))
try:
    socket.create_connection(("192.0.2.1", 80), timeout=1)
    print("network: reachable")
except OSError as e:
    print("network:", e.strerror or e)
'

printf '$ cordon run --json -- python3 -c "..."\n'
status=0
receipt=$("$cordon" run --json -- python3 -c "$snippet") || status=$?
if [ -n "$receipt" ]; then
	printf '%s\n' "$receipt" | python3 -m json.tool
fi
exit "$status"
