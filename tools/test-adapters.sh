#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make test-adapters` does: for each agent framework a virtual environment with the framework
# and Cordon's wheel in it, then the adapter's own tests and the framework's suites, as an ordinary
# user and, if root calls, as root. Ends with one line "N passed, N failed, N skipped".
#
#	tools/test-adapters.sh [NAME...]     default: every directory of tests/adapters
#
# tests/adapters/NAME holds
#	requirements.txt   what to install, with exact versions
#	sources.txt        source archives to fetch and unpack (they hold the upstream tests); optional
#	package.json       what npm is to install, with exact versions; optional
#	run.sh PYTHON      runs the suites; optional, without it pytest runs the directory
# run.sh finds in its environment RESULTS (directory for JUnit files), SOURCES (the unpacked archives),
# PACKAGES (the directory that has npm's node_modules), WHO (root or user) and NAME, and usually calls
# suite (tests/adapters/suite.sh).
#
# Environment: PYTHON makes the virtual environments (default /usr/bin/python3); ADAPTER_SECONDS is
# the time for one adapter's suites as one user (default 900); ADAPTER_WHO="user" leaves root out.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
umask 022

python=${PYTHON:-/usr/bin/python3}
test_uid=20001 # any id that owns nothing on this machine will do
results=$PWD/build/results-adapters
failures=0

say() { printf '\n== %s\n' "$*"; }
failed() { echo "FAILED: $*"; failures=$((failures + 1)); }

scratch=$(mktemp -d /tmp/cordon-adapters.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
rm -rf "$results"
mkdir -p "$results"

# An ordinary user has to reach the environments; the checkout may lie in a closed home.
base=$PWD/build/adapters
mkdir -p "$base"
if [ "$(id -u)" -eq 0 ] &&
	! setpriv --reuid $test_uid --regid $test_uid --clear-groups test -x "$base"; then
	base=/var/tmp/cordon-adapters
	mkdir -p "$base"
fi

# The wheel, once: again only if something it is made of has changed.
wheel() {
	local made
	made=$(find build/python/dist -name 'pycordon-*.whl' 2>/dev/null | head -n 1)
	if [ -n "$made" ] && [ -z "$(find src include cmd man bindings meson.build meson_options.txt \
		pyproject.toml tools/wheel.sh -newer "$made" -type f ! -name '*.pyc' -print -quit)" ]; then
		echo "$made"
	else
		tools/wheel.sh
	fi
}

# environment NAME: the virtual environment, made again when its requirements have changed
environment() {
	local dir=$base/$1
	# Made when the package still was called `cordon`: both would be found.
	[ ! -f "$dir/cordon.whl" ] || rm -rf "$dir"
	PYTHON=$python tools/venv.sh "$dir" "tests/adapters/$1/requirements.txt" || return
	if ! cmp -s "$made" "$dir/pycordon.whl"; then
		"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
			--force-reinstall --no-deps "$made" </dev/null || return
		cp "$made" "$dir/pycordon.whl"
	fi
}

# sources NAME: fetches and unpacks the source archives that hold the upstream tests
sources() {
	local list=tests/adapters/$1/sources.txt item
	[ -f "$list" ] || return 0
	mkdir -p "$base/src"
	while read -r item; do
		case $item in '' | '#'*) continue ;; esac
		[ -f "$base/src/.$item" ] && continue
		rm -rf "$scratch/download"
		"$base/$1/bin/python" -m pip -q --disable-pip-version-check download --no-deps \
			--no-binary "${item%%==*}" -d "$scratch/download" "$item" || return
		tar -xzf "$scratch/download"/*.tar.gz -C "$base/src" --no-same-owner || return
		touch "$base/src/.$item"
	done <"$list"
}

# packages NAME: what npm installs, beside the virtual environment; again only if package.json or Node has changed
packages() {
	local dir=$base/$1/packages list=tests/adapters/$1/package.json wanted
	[ -f "$list" ] || return 0
	wanted=$(node --version && cat "$list") || return
	[ "$(cat "$dir/.wanted" 2>/dev/null)" != "$wanted" ] || return 0
	rm -rf "$dir"
	mkdir -p "$dir"
	cp "$list" "$dir/package.json"
	# No script of a package runs here.
	(cd "$dir" && npm install --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error \
		--cache="$scratch/npm" </dev/null) || return
	echo "$wanted" >"$dir/.wanted"
}

# suites NAME WHO: one adapter's tests from a copy of the tree, with a clean environment
suites() {
	local name=$1 who=$2 home=$scratch/$1-$2 as=() run status=0
	mkdir -p "$home/tmp" "$home/results"
	if [ "$who" = user ] && [ "$(id -u)" -eq 0 ]; then
		chown -R "$test_uid:$test_uid" "$home"
		as=(setpriv --reuid "$test_uid" --regid "$test_uid" --clear-groups)
	fi
	run=(bash run.sh "$base/$name/bin/python")
	if [ ! -f "tests/adapters/$name/run.sh" ]; then
		# shellcheck disable=SC2016 # for the inner shell
		run=(bash -c '. ../suite.sh "$0" && suite own .' "$base/$name/bin/python")
	fi
	(cd "$scratch/src/tests/adapters/$name" && env -i HOME="$home" TMPDIR="$home/tmp" LANG=C.UTF-8 \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PYTHONDONTWRITEBYTECODE=1 \
		NAME="$name" WHO="$who" RESULTS="$home/results" SOURCES="$base/src" \
		PACKAGES="$base/$name/packages" \
		PYTEST_ARGS="${PYTEST_ARGS-}" \
		"${as[@]}" timeout -k 20 "${ADAPTER_SECONDS:-900}" "${run[@]}" </dev/null) || status=$?
	if ! compgen -G "$home/results/*.xml" >/dev/null; then
		failed "no test results of $name as $who (status $status)"
	else
		local file
		for file in "$home"/results/*.xml; do
			cp "$file" "$results/$name-$(basename "$file" .xml)-$who.xml"
		done
		if [ $status -ne 0 ] && ! grep -qE '<(failure|error)' "$home"/results/*.xml; then
			failed "$name as $who ended with status $status"
		fi
	fi
}

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
	mapfile -t names < <(cd tests/adapters && find . -mindepth 2 -maxdepth 2 -name requirements.txt \
		-printf '%h\n' | sed 's|^\./||' | sort)
fi
everybody=user
[ "$(id -u)" -eq 0 ] && everybody=${ADAPTER_WHO:-user root}

say "building the wheel"
made=$(wheel) || failed "the wheel could not be built"
if [ -n "$made" ]; then
	mkdir -p "$scratch/src"
	tar -cf - --exclude=__pycache__ tests/adapters examples | tar -xf - -C "$scratch/src" --no-same-owner
	chmod -R a+rX "$scratch/src"
	for name in "${names[@]}"; do
		say "$name: environment"
		if ! environment "$name" || ! sources "$name" || ! packages "$name"; then
			failed "$name: installing"
			continue
		fi
		for who in $everybody; do
			say "$name as $who"
			suites "$name" "$who"
		done
	done
fi

say "results"
/usr/bin/python3 tools/summarise.py "$results" "$failures"
