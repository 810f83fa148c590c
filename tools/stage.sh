#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Puts the built product and the tests into DIR, where any user can read them: tests run from an
# installed tree, never from the build directory, and the checkout may lie in a closed home.
#
#	tools/stage.sh DIR [BUILD]    makes DIR/install, DIR/src, DIR/cordon-fault; prints the prefix
set -euo pipefail
to=$(realpath "$1")
build=${2:-build/release}
cd "$(dirname "$0")/.."

prefix=$(meson introspect "$build" --buildoptions |
	/usr/bin/python3 -c 'import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"))')
umask 022
DESTDIR=$to/install meson install -C "$build" --quiet --no-rebuild >&2
mkdir -p "$to/src"
tar -cf - --exclude=./build --exclude=./.git --exclude=__pycache__ . |
	tar -xf - -C "$to/src" --no-same-owner
mkdir -p "$to/src/build"
cp "$build"/cmd/cordon/cordon-fault "$to/"
# Relative: the staged tree may be moved to another machine as a whole.
ln -s "../../install$prefix/bin/cordon" "$to/src/build/cordon"
chmod -R a+rX "$to"
echo "$prefix"
