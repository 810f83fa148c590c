#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: static-lib.sh LD OBJCOPY AR OUTPUT SCRATCH_DIR MAP ARCHIVE...
# Joins the archives into one object, makes all symbols local that MAP does not export, and packs
# the object as a static library.
set -eu

ld=$1 objcopy=$2 ar=$3 out=$4 scratch=$5 map=$6
shift 6

mkdir -p "$scratch"
sed -n 's/^[[:space:]]*\(cordon_[a-z0-9_]*\);$/\1/p' "$map" >"$scratch/exported"
"$ld" -r -o "$scratch/cordon.o" --whole-archive "$@"
"$objcopy" --keep-global-symbols="$scratch/exported" "$scratch/cordon.o"
rm -f "$out"
"$ar" rcsD "$out" "$scratch/cordon.o"
