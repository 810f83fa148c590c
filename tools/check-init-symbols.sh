#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: check-init-symbols.sh BUILD_DIR
#
# Code that runs between clone and exec must not call into a C library: no heap, no stdio, no locale,
# no locks; and the gateway has no C library to be attacked in. Such code is in:
#   cordon-init, cordon-gateway  freestanding; their objects may need only what they define themselves
#   cordon-meter                 the same, and the dynamic loader, to load NVIDIA's library
#   src/launch/child.c           runs in a vfork child that borrows the caller's memory; may need only
#                                the names below
set -uo pipefail

build=$1
status=0

# What the compiler itself may call, and what the linker makes up.
compiler='memcpy memmove memset memcmp _GLOBAL_OFFSET_TABLE_ __stack_chk_fail'
# Raw system calls are inline (bare/raw.h); the fault variant is not checked here.
child_allowed="$compiler"

undefined() { nm -u --format=posix "$@" 2>/dev/null | awk 'NF >= 2 && $2 == "U" { print $1 }' | sort -u; }
defined() { nm --defined-only --format=posix "$@" 2>/dev/null | awk 'NF >= 2 && $2 ~ /^[A-TV-Z]$/ { print $1 }' | sort -u; }

for program in init gateway meter; do
	mapfile -t objects < <(find "$build/src/$program/cordon-$program.p" -name '*.o')
	if [ ${#objects[@]} -eq 0 ]; then
		echo "no objects of cordon-$program in $build"
		status=1
		continue
	fi
	left=$(comm -23 <(undefined "${objects[@]}") <(defined "${objects[@]}") |
		grep -vxF _GLOBAL_OFFSET_TABLE_)
	if [ $program = meter ]; then
		left=$(printf '%s\n' "$left" | grep -vxE 'dlopen|dlsym')
	fi
	if [ -n "$left" ]; then
		echo "cordon-$program needs what it does not define:"
		printf '%s\n' "$left"
		status=1
	fi
done

mapfile -t child_objects < <(find "$build/src" -path '*cordon-launch.a.p/*' -name '*child.c.o')
if [ ${#child_objects[@]} -eq 0 ]; then
	echo "no object of src/launch/child.c in $build"
	status=1
fi
for object in "${child_objects[@]}"; do
	for symbol in $(undefined "$object"); do
		case " $child_allowed " in
		*" $symbol "*) ;;
		*)
			echo "src/launch/child.c calls $symbol, which is not on the list of what a vfork child may call"
			status=1
			;;
		esac
	done
done
exit $status
