#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: one-object.sh OBJCOPY SYMBOL ARCHIVE OUTPUT.o
# All objects of ARCHIVE as one, in which only SYMBOL can be seen from outside.
set -euo pipefail
objcopy=$1 symbol=$2 archive=$3 output=$4

ld -r --whole-archive "$archive" -o "$output.all"
"$objcopy" --keep-global-symbol="$symbol" "$output.all" "$output"
rm "$output.all"
