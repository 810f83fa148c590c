#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make test-programs` does after the packages are there: puts the programs that Debian lacks into
# build/programs, then runs tests/programs for an ordinary user and, if root calls, partly for root.
# Ends with one line "N passed, N failed, N skipped". A program that is not there is a failure.
#
#	tools/test-programs.sh [PYTEST_ARGUMENT...]     e.g. -k LaTeX
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
umask 022

test_uid=20001 # any id that owns nothing on this machine will do
results=$PWD/build/results-programs
failures=0
failed() { echo "FAILED: $*"; failures=$((failures + 1)); }

# An ordinary user has to reach the programs; the checkout may lie in a closed home.
tools=$PWD/build/programs
mkdir -p "$tools"
if [ "$(id -u)" -eq 0 ] &&
	! setpriv --reuid $test_uid --regid $test_uid --clear-groups test -x "$tools"; then
	tools=/var/tmp/cordon-programs
	mkdir -p "$tools"
fi
scratch=$(mktemp -d /tmp/cordon-programs.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
rm -rf "$results"
mkdir -p "$results" "$scratch/tmp"

tools/venv.sh "$tools/py" tests/programs/requirements.txt || failed "programs from the Python package index"
if ! cmp -s tests/programs/npm.txt "$tools/npm/.wanted"; then
	rm -rf "$tools/npm"
	mapfile -t packages <tests/programs/npm.txt
	if npm install --silent --no-audit --no-fund --prefix "$tools/npm" "${packages[@]}" </dev/null; then
		cp tests/programs/npm.txt "$tools/npm/.wanted"
	else
		failed "programs from npm's registry"
	fi
fi
# Some of these finish their installation when they run for the first time.
for program in "$tools"/npm/node_modules/.bin/{bun,deno,claude,codex,opencode}; do
	HOME=$scratch "$program" --version >/dev/null 2>&1 || failed "$program"
done
chmod -R a+rX "$tools"

if ! prefix=$(tools/stage.sh "$scratch"); then
	failed "installing into $scratch"
else
	status=0
	(cd "$scratch/src" && env -i PATH="$PATH" HOME="$scratch" LANG=C.UTF-8 TMPDIR="$scratch/tmp" \
		PYTHONDONTWRITEBYTECODE=1 CORDON="$scratch/install$prefix/bin/cordon" CORDON_MUST_WORK=1 \
		CORDON_PROGRAMS="$tools" CORDON_TEST_WHO="${CORDON_TEST_WHO:-root user}" /usr/bin/python3 \
		-m pytest -q -o cache_dir="$scratch/cache" --durations=10 --junitxml="$results/programs.xml" \
		"$@" tests/programs) || status=$?
	if [ $status -ne 0 ] && ! grep -qE '<(failure|error)' "$results/programs.xml"; then
		failed "pytest ended with status $status"
	fi
fi
/usr/bin/python3 tools/summarise.py "$results" "$failures"
