#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The part of `make soak` that uses the Python package, from its wheel.
#
#	tools/soak-python.sh RUNS [all|warm]
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d /tmp/cordon-soak.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
wheel=$(tools/wheel.sh)
/usr/bin/python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-index \
	"$wheel" </dev/null
# Where an ordinary user finds them, too.
cp tools/soak_python.py tools/soak_census.py "$scratch/"
chmod -R a+rX "$scratch"
/usr/bin/python3 "$scratch/soak_python.py" --python "$scratch/venv/bin/python" --runs "$1" --part "${2:-all}"
