#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: one-object.sh LD OBJCOPY SYMBOL ARCHIVE OUTPUT.o
# All objects of ARCHIVE as one, in which only SYMBOL can be seen from outside.
set -euo pipefail
ld=$1 objcopy=$2 symbol=$3 archive=$4 output=$5

"$ld" -r --whole-archive "$archive" -o "$output.all"
"$objcopy" --keep-global-symbol="$symbol" "$output.all" "$output"
rm "$output.all"
