# SPDX-License-Identifier: Apache-2.0
# For the adapters' run.sh: `. ../suite.sh PYTHON`, then one `suite NAME PYTEST-ARGUMENT...` for each
# suite, and `finish` at the end. See tools/test-adapters.sh.
# shellcheck shell=bash
python=$1
adapters=$(cd .. && pwd)
status=0

# suite NAME ARGUMENT...: pytest without any configuration but what is given here; says in how many cases
# a sandbox was started
suite() {
	local to=$RESULTS/$1.xml
	shift
	# shellcheck disable=SC2086 # PYTEST_ARGS is a list of words
	PYTHONPATH=$adapters/$NAME:$adapters "$python" -m pytest -q --disable-warnings -p cordon_counts -p no:cacheprovider -c /dev/null \
		-o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function --confcutdir="$adapters" \
		--rootdir="$PWD" --junitxml="$to" ${PYTEST_ARGS-} "$@" || status=1
}

finish() { exit $status; }
