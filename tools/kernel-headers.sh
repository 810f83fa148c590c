#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: kernel-headers.sh DIR ARCH [ROOT]
# Makes DIR an include directory with the kernel's headers and nothing else, so that code compiled
# for another C library cannot pick up one of this system's headers by accident. ROOT is where those
# of another architecture are (the parent of linux/ and asm/).
set -eu

mkdir -p "$1"
for name in linux asm asm-generic; do
	for place in ${3:-/usr/include "/usr/include/$2-linux-gnu"}; do
		[ ! -d "$place/$name" ] || break
	done
	if [ ! -d "$place/$name" ]; then
		echo "kernel-headers: no $name/ below ${3:-/usr/include}" >&2
		exit 1
	fi
	ln -sfn "$place/$name" "$1/$name"
done
