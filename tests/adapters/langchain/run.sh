#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh PYTHON: our tests, the conformance suite for deepagents backends with the newest deepagents, and
# LangChain's tests of the shell middleware with our policy in the place of the host's.

# Called by hand, without tools/test-adapters.sh:
cd "$(dirname "$0")" || exit 1
export NAME=langchain TMPDIR=${TMPDIR:-/tmp}
: "${SOURCES:=${ADAPTER_SRC:-$PWD/../../../build/adapters/src}}" "${RESULTS:=$(mktemp -d)}"
. ../suite.sh "${1:-$PWD/../../../build/adapters/$NAME/bin/python}"

suite own test_langchain.py test_deepagents.py test_example.py test_starter.py
suite conformance test_deepagents_suite.py
cd "$SOURCES/langchain-1.4.7" || exit 1
suite upstream-shell -p cordon_shell_plugin \
	tests/unit_tests/agents/middleware/implementations/test_shell_tool.py
finish
