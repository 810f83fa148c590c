#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh PYTHON: the tests of tests/adapters/langchain that concern deepagents, with the last deepagents
# for which the whole conformance suite holds.

# Called by hand, without tools/test-adapters.sh:
cd "$(dirname "$0")" || exit 1
export NAME=langchain_old TMPDIR=${TMPDIR:-/tmp}
: "${SOURCES:=${ADAPTER_SRC:-$PWD/../../../build/adapters/src}}" "${RESULTS:=$(mktemp -d)}"
. ../suite.sh "${1:-$PWD/../../../build/adapters/$NAME/bin/python}"

cd ../langchain || exit 1
suite own test_deepagents.py
suite conformance test_deepagents_suite.py
finish
