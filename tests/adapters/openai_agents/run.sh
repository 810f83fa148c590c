#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh PYTHON: our tests, then the SDK's own tests of its local session with ours in its place.

# Called by hand, without tools/test-adapters.sh:
cd "$(dirname "$0")" || exit 1
export NAME=openai_agents TMPDIR=${TMPDIR:-/tmp}
: "${SOURCES:=${ADAPTER_SRC:-$PWD/../../../build/adapters/src}}" "${RESULTS:=$(mktemp -d)}"
. ../suite.sh "${1:-$PWD/../../../build/adapters/$NAME/bin/python}"

export OPENAI_API_KEY=none # nothing here may reach the service
OPENAI_AGENTS_DISABLE_TRACING=1 suite own .
cd "$SOURCES/openai_agents-0.24.0" || exit 1
sandbox=tests/sandbox
suite upstream-session -p cordon_session_plugin \
	$sandbox/test_unix_local.py $sandbox/test_unix_local_create.py \
	$sandbox/test_unix_local_file_io.py $sandbox/test_unix_local_special_files.py \
	$sandbox/test_extract.py $sandbox/test_exposed_ports.py $sandbox/test_session_manager.py
suite upstream-runtime -p cordon_session_plugin $sandbox/test_runtime.py
finish
