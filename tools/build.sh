#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: build.sh NAME COMPILER MESON_OPTION...
# Configures build/NAME (the first time, or when an option differs) and builds it. Quiet when good.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

dir=build/$1 cc=$2
shift 2
log=$dir.log
mkdir -p build

if [ ! -f "$dir/build.ninja" ]; then
	if ! CC=$cc meson setup "$dir" "$@" >"$log" 2>&1; then
		cat "$log"
		rm -rf "$dir"
		exit 1
	fi
elif [ "$(cat "$dir/.options" 2>/dev/null)" != "$*" ]; then
	# A build directory that is older than an option must read the options again first.
	meson configure "$dir" "$@" >"$log" 2>&1 ||
		{ meson setup --reconfigure "$dir" && meson configure "$dir" "$@"; } >"$log" 2>&1 ||
		{ cat "$log"; exit 1; }
fi
echo "$*" >"$dir/.options"

if ! ninja -C "$dir" --quiet >"$log" 2>&1; then
	grep -vE '^(cc |gcc |clang|Compiler for C|Program|Dependency|Run-time dependency|Host machine|ninja: (Entering|build))' "$log"
	exit 1
fi
