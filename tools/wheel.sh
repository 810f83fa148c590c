#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel of the Python package in build/python/dist and prints its name. It fits Python 3.9
# and newer, and every Linux whose C library has the symbols that the extension really asks for.
#
#	tools/wheel.sh
set -euo pipefail
cd "$(dirname "$0")/.."

out=build/python
log=$out/wheel.log
mkdir -p $out
rm -rf $out/dist $out/raw
tools/venv.sh $out/build-venv tools/python/build.txt
tools=$PWD/$out/build-venv/bin

# The build directory is kept: what has not changed is not compiled again.
if ! PATH=$tools:$PATH "$tools/python" -m pip wheel --quiet --disable-pip-version-check --no-input \
	--no-deps --no-build-isolation --config-settings=build-dir=$out/meson -w $out/raw . \
	</dev/null >$log 2>&1; then
	grep -vE "Compiling C object|supports arguments|found: YES" $log >&2
	exit 1
fi
raw=$(echo $out/raw/pycordon-*.whl)

# The oldest C library that will do is the newest symbol version in use.
rm -rf $out/unpacked
mkdir $out/unpacked
(cd $out/unpacked && "$tools/python" -m zipfile -e "../../../$raw" .)
extension=$out/unpacked/pycordon/_cordon.abi3.so
command=$out/unpacked/pycordon/bin/cordon
glibc=$(objdump -T $extension | grep -o 'GLIBC_2\.[0-9]*' | sed 's/GLIBC_2\.//' | sort -n | tail -n 1)
if foreign=$(objdump -p $extension | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^lib(c|m|pthread)\.so\.[0-9]+$'); then
	echo "wheel: the extension needs libraries that not every machine has: $foreign" >&2
	exit 1
fi
if readelf -lW $command | grep -q INTERP; then
	echo "wheel: the command is not static" >&2
	exit 1
fi
if objdump -T $extension | awk '$2 == "g" && $NF != "PyInit__cordon" { bad = 1 } END { exit !bad }'; then
	echo "wheel: the extension exports more than its own entry" >&2
	exit 1
fi

name=$("$tools/wheel" tags --python-tag cp39 --abi-tag abi3 \
	--platform-tag "manylinux_2_${glibc}_x86_64" "$raw" | tail -n 1)
mkdir $out/dist
mv "$out/raw/$name" $out/dist/
rm -rf $out/raw $out/unpacked
echo "$out/dist/$name"
