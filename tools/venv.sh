#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Python environment with what REQUIREMENTS names. Does nothing if DIR is up to date.
#
#	tools/venv.sh DIR REQUIREMENTS
#
# PYTHON is the interpreter (default: Debian's).
set -euo pipefail
dir=$1 requirements=$2
python=${PYTHON:-/usr/bin/python3}

wanted=$("$python" -c 'import sys; print(sys.version)' && cat "$requirements")
if [ "$(cat "$dir/.wanted" 2>/dev/null)" = "$wanted" ]; then
	exit 0
fi
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
"$python" -m venv "$dir"
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$requirements" </dev/null
echo "$wanted" >"$dir/.wanted"
