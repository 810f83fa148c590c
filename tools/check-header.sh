#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: check-header.sh HEADER INCLUDE_DIR CC...
# Compiles a public header alone: as strict C11 and C17, and as C++ if there is a compiler for it.
set -eu

header=$1 include=$2
shift 2

for std in c11 c17; do
	"$@" -std=$std -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$include" -x c "$header"
done

cxx=$(command -v g++ || command -v clang++-19 || true)
if [ -z "$cxx" ]; then
	echo "no C++ compiler: only the C half was checked"
	exit 77
fi
for std in c++11 c++20; do
	"$cxx" -std=$std -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$include" -x c++ "$header"
done
