#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel of the Python package in build/python/dist and prints its name. It fits Python 3.9
# and newer, and every Linux whose C library has the symbols that the extension really asks for.
#
#	tools/wheel.sh [ARCH]    for another architecture than this machine's: in build/python-ARCH/dist
set -euo pipefail
cd "$(dirname "$0")/.."

arch=${1:-$(uname -m)}
out=build/python
setup=()
declare -A machine=([x86_64]=X86-64 [aarch64]=AArch64)
if [ "$arch" != "$(uname -m)" ]; then
	out=build/python-$arch
	file=$(tools/cross.sh --file "$arch")
	setup=("--config-settings=setup-args=--cross-file=$file")
fi
log=$out/wheel.log
mkdir -p "$out"
rm -rf "$out/dist" "$out/raw"
tools/venv.sh "$out/build-venv" tools/python/build.txt
tools=$PWD/$out/build-venv/bin

# The build directory is kept: what has not changed is not compiled again.
if ! PATH=$tools:$PATH "$tools/python" -m pip wheel --quiet --disable-pip-version-check --no-input \
	--no-deps --no-build-isolation "--config-settings=build-dir=$out/meson" "${setup[@]}" -w "$out/raw" . \
	</dev/null >"$log" 2>&1; then
	grep -vE "Compiling C object|supports arguments|found: YES" "$log" >&2
	exit 1
fi
raw=("$out"/raw/pycordon-*.whl)

# The oldest C library that will do is the newest symbol version in use.
rm -rf "$out/unpacked"
mkdir "$out/unpacked"
(cd "$out/unpacked" && "$tools/python" -m zipfile -e "../../../${raw[0]}" .)
extension=$out/unpacked/pycordon/_cordon.abi3.so
command=$out/unpacked/pycordon/bin/cordon
libraries=("$extension")
for freeze in "$out"/unpacked/pycordon/_{freeze.so,fork.abi3.so,hold.so}; do
	[ ! -e "$freeze" ] || libraries+=("$freeze")
done
objdump=$(command -v "$arch-linux-gnu-objdump" || command -v objdump)
glibc=$("$objdump" -T "${libraries[@]}" | grep -o 'GLIBC_2\.[0-9]*' | sed 's/GLIBC_2\.//' | sort -n | tail -n 1)
if foreign=$("$objdump" -p "${libraries[@]}" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(lib(c|m|pthread)|ld-linux-aarch64)\.so\.[0-9]+$'); then
	echo "wheel: the extension needs libraries that not every machine has: $foreign" >&2
	exit 1
fi
if ! readelf -hW "$extension" "$command" | awk -v want="${machine[$arch]}" '/Machine:/ { n++; bad += !index($0, want) }
	END { exit n != 2 || bad }'; then
	echo "wheel: the programs in it are not for $arch" >&2
	exit 1
fi
if readelf -lW "$command" | grep -q INTERP; then
	echo "wheel: the command is not static" >&2
	exit 1
fi
if "$objdump" -T "$extension" | awk '$2 == "g" && $NF != "PyInit__cordon" { bad = 1 } END { exit !bad }'; then
	echo "wheel: the extension exports more than its own entry" >&2
	exit 1
fi

name=$("$tools/wheel" tags --python-tag cp39 --abi-tag abi3 \
	--platform-tag "manylinux_2_${glibc}_$arch" "${raw[0]}" | tail -n 1)
mkdir "$out/dist"
mv "$out/raw/$name" "$out/dist/"
rm -rf "$out/raw" "$out/unpacked"
echo "$out/dist/$name"
