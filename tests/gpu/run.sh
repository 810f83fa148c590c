#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests on a machine with an NVIDIA GPU (`make test-gpu`). CI has none.
#
#	tests/gpu/run.sh [OPTION...]	options of checks.py: --only NAME,... --seconds N
#
# CORDON is the command (default: build/gpu/cordon, which tests/gpu/carry.sh puts there for a machine
# without compilers and network, else what is built). OUT is where logs go (default: build/gpu/out).
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ -z "${CORDON:-}" ]; then
	for CORDON in build/gpu/cordon build/release/cmd/cordon/cordon build/cordon; do
		[ -x "$CORDON" ] && break
	done
fi
[ -x "$CORDON" ] || { echo "test-gpu: there is no command: make all" >&2; exit 2; }
OUT=${OUT:-build/gpu/out}
mkdir -p "$OUT"
# Where an ordinary user can reach it.
place=$(mktemp -d /tmp/cordon-gpu-XXXXXX)
trap 'rm -rf "$place"' EXIT
cp "$CORDON" "$place/cordon"
cp -r tests/gpu "$place/tests"
chmod -R a+rX "$place"
CORDON=$place/cordon OUT=$(realpath "$OUT") PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
	"${PYTHON:-python3}" "$place/tests/checks.py" "$@"
