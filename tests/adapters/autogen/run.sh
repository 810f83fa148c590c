#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh PYTHON: our tests, then AutoGen's own suites of the local and the Jupyter executor with ours in
# their place.
. ../suite.sh "$1"
PATH=$(dirname "$1"):$PATH # some cases look for uv
suite own .
# The suites write to their directory.
for name in ext agentchat; do
	cp -r "$SOURCES/autogen_$name-0.7.5" "$TMPDIR/$name"
done
cd "$TMPDIR/ext" || exit 1
suite upstream-executor -p cordon_autogen_plugin tests/code_executors/test_commandline_code_executor.py
suite upstream-functions -p cordon_autogen_plugin tests/code_executors/test_user_defined_functions.py
suite upstream-tool -p cordon_autogen_plugin tests/tools/test_python_code_executor_tool.py
suite upstream-jupyter -p cordon_jupyter_plugin tests/code_executors/test_jupyter_code_executor.py
cd "$TMPDIR/agentchat" || exit 1
suite upstream-agent -p cordon_autogen_plugin tests/test_code_executor_agent.py
finish
