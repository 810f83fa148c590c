#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make test` does: three builds, the meson suites in two of them, the pytest suites as root and
# as an ordinary user, those of the Python package too. Ends with one line "N passed, N failed, N
# skipped".
#
#	tools/test.sh [STEP...]     steps: gcc clang asan root user python programs microvm (default: all), kernels
#
# CORDON_ADAPTERS names adapters to be tested as well (see tools/test-adapters.sh). CORDON_KERNELS=1: the
# step `kernels`, too, another kernel in a guest (`tools/test-kernels.sh short`). PYTEST_ARGS is
# handed to pytest, e.g. PYTEST_ARGS='-k network -x'. CORDON_TEST_LONG=1: what is the same for every caller is
# tried as root, too. CORDON_MICROVM=1: all tests of level microvm, not the ones that stand for the rest.
# CORDON_MUST_WORK: see below.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

# Any id that owns nothing on this machine will do; it needs no entry in the user database.
test_uid=20001
results=$PWD/build/results
# 1: a test that this machine cannot carry out fails instead of being skipped (as in .ci/run).
must_work=${CORDON_MUST_WORK:-0}
# A failed lint counts as a failure in the closing line.
failures=${CORDON_LINT_FAILED:-0}

rm -rf "$results"
mkdir -p "$results"
umask 022

say() { printf '\n== %s\n' "$*"; }
failed() { echo "FAILED: $*"; failures=$((failures + 1)); }

# collect STATUS XML NAME: keeps a runner's results. A runner that failed without naming a test (a
# crash, a time-out) counts as one failure.
collect() {
	local status=$1 xml=$2 name=$3
	if [ ! -f "$xml" ]; then
		failed "no test results of $name"
		return
	fi
	cp "$xml" "$results/$name.xml"
	if [ "$status" -ne 0 ] && ! grep -qE '<(failure|error)' "$xml"; then
		failed "$name ended with status $status"
	fi
}

# meson_suites NAME: the C suites of build/NAME
meson_suites() {
	local name=$1 dir=build/$1 status=0
	local xml=$dir/meson-logs/testlog.junit.xml
	rm -f "$xml"
	meson test -C "$dir" --no-rebuild --num-processes 2 >"$results/$name.log" 2>&1 || status=$?
	sed -n '/^Ok:/p; /^Fail:/p; /^Skipped:/p; /^Timeout:/p' "$results/$name.log"
	[ $status -eq 0 ] || /usr/bin/python3 tools/summarise.py --log "$dir/meson-logs/testlog.json"
	collect $status "$xml" "$name"
}

suites=(tests/integration tests/escape tests/limits tests/net tests/workspace)
# These measure no time and look at nothing but their own directories and processes, so they run at the
# same time for three callers, the largest in a run of its own. The others run alone.
calm=(tests/integration/test_{beside,cli_options,cli_run,cli_streams,confine,deny_patterns,docs,docs_mcp,explain,explain_page,explain_verb}.py
	tests/integration/test_{git,git_add,git_fuzz,git_hold,git_look,gpu,home_paths,inject,installed,interactive,landlock_metadata,locks}.py
	tests/integration/test_{mcp_landlock,mcp_policy,mcp_refusals,mcp_workspace,mcp_wrap,mcp_wrap_toml,names,new,own_init}.py
	tests/integration/test_{packages,packages_shown,path,private,refusals,said,said_paths,sandbox_verb,second_try,shapes,tools,why}.py
	tests/escape/test_{fds,identity,ipc,network,seccomp}.py tests/net tests/workspace)
# Of the Python package, what is the same for every caller: the code that a run gets, languages, schedulers,
# documents and long repetitions. It runs as an ordinary user; as root with CORDON_TEST_LONG, too.
same_for_all=(tests/python/test_{docs_python,e2b,examples,ext_leaks,languages,languages_hostile,mcp_schemas,scheduler,soak,warm_same}.py)
largest=(tests/workspace/test_workspace_hostile.py tests/integration/test_packages.py)
# Of these, what stands for the rest where a user is alone: the same tests run for a user whom root has
# prepared things for. `tools/test.sh user` runs all of them so.
alone=(tests/integration/test_{cli_options,cli_run,cli_streams,confine,home_paths,installed,interactive,locks}.py
	tests/integration/test_{own_init,path,private,said}.py tests/escape/test_{fds,identity,ipc,network,seccomp}.py
	tests/net/test_net_{allow,gateway}.py tests/workspace/test_workspace_{base,cli}.py)
who='root user'
uid=
python=/usr/bin/python3
xml=out

# run_pytest NAME [ARGUMENT...]: in the staged tree, with a clean environment, as $uid if that is set
run_pytest() {
	local home=$scratch/$1-home as=()
	shift
	mkdir -p "$home/tmp" "$home/results"
	if [ -n "$uid" ]; then
		chown -R "$uid:$uid" "$home"
		as=(setpriv --reuid "$uid" --regid "$uid" --clear-groups)
	fi
	# shellcheck disable=SC2086 # PYTEST_ARGS is a list of words
	(cd "$scratch/src" && env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME="$home" LANG=C.UTF-8 TMPDIR="$home/tmp" PYTHONDONTWRITEBYTECODE=1 \
		CORDON="$scratch/install$prefix/bin/cordon" CORDON_FAULT="$scratch/cordon-fault" \
		CORDON_PREFIX="$scratch/install$prefix" CORDON_SOURCE="$scratch/src" \
		CORDON_MUST_WORK="$must_work" CORDON_KILLS="${CORDON_KILLS-}" CORDON_TEST_LONG="${CORDON_TEST_LONG-}" CORDON_TEST_WHO="$who" \
		"${as[@]}" "$python" -m pytest -q -o cache_dir="$home/cache" --durations=5 \
		--junitxml="$home/results/$xml.xml" ${PYTEST_ARGS-} "$@")
}

# collect_pytest STATUS NAME [ARGUMENT...]: after run_pytest() with the same. If second-try.list has all
# that failed, they run once more, alone. 5: nothing was selected, which PYTEST_ARGS may do to one of the runs.
collect_pytest() {
	local status=$1 name=$2 first=$scratch/$2-home/results/out.xml
	shift 2
	[ "$status" -eq 5 ] && [ -n "${PYTEST_ARGS-}" ] && status=0
	if [ "$status" -eq 1 ] && tools/second-try.py may "$first"; then
		say "$name: what failed once more"
		xml=again run_pytest "$name" "$@" --last-failed && status=0
		tools/second-try.py merge "$first" "${first%/*}/again.xml"
	fi
	collect "$status" "$first" "pytest-$name"
}

pytest_suites() {
	run_pytest "$1" "${suites[@]}"
	collect_pytest $? "$1" "${suites[@]}"
}

# together NAME...: one run of pytest for each, at the same time; caller() says who runs which tests
together() {
	local codes=() pids=() name i
	for name in "$@"; do
		(caller "$name" run_pytest) >"$scratch/$name.log" 2>&1 &
		pids+=($!)
	done
	for i in "${!pids[@]}"; do
		codes[i]=0
		wait "${pids[i]}" || codes[i]=$?
	done
	for i in "${!pids[@]}"; do
		name=${*:i+1:1}
		echo "-- $name"
		cat "$scratch/$name.log"
		caller "$name" collect_pytest "${codes[i]}"
	done
}

# caller NAME FUNCTION [ARGUMENT...]: root, a user for whom root prepares things, and a user alone. Each
# user has another id, since the kernel counts some things for each id.
caller() {
	local name=$1 who='root user' uid='' must_work=$must_work what=("${calm[@]}")
	shift
	case $name in
	calm-root) who=root what+=("${largest[@]/#/--ignore=}") ;;
	calm-prepared) who=user what+=("${largest[@]/#/--ignore=}") ;;
	calm-largest) what=("${largest[@]}") ;;
	# What only root can prepare runs in the others.
	calm-user) uid=$((test_uid + 1)) must_work=0 what=("${alone[@]}" -m 'not slow') ;;
	python-root)
		what=(tests/python)
		[ -n "${CORDON_TEST_LONG-}" ] || what+=("${same_for_all[@]/#/--ignore=}")
		;;
	python-user) what=(tests/python) uid=$test_uid ;;
	esac
	"$@" "$name" "${what[@]}"
}

# The Python package from its wheel, installed where any user can reach it.
python_suites() {
	local wheel
	if ! wheel=$(tools/wheel.sh) || ! tools/venv.sh "$scratch/venv" tools/python/test.txt ||
		! "$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
			--no-input --no-deps --no-index "$wheel" </dev/null; then
		failed "the Python package"
		return
	fi
	chmod -R a+rX "$scratch/venv"
	python=$scratch/venv/bin/python
	if [ "$(id -u)" -eq 0 ]; then
		say "Python package as root and as an ordinary user, at the same time"
		together python-root python-user
	else
		say "Python package as an ordinary user"
		run_pytest python-user tests/python
		collect_pytest $? python-user tests/python
	fi
}

# The lighter ones of `make test-programs`.
programs_suite() {
	local who='root user' uid='' python=/usr/bin/python3 must_work=${CORDON_MUST_WORK:-0}
	say "everyday programs"
	run_pytest programs tests/programs -m light
	collect_pytest $? programs tests/programs -m light
}

# Each starts a machine that is emulated; a few of them stand for the rest.
microvm_suite() {
	local who='root user' uid='' python=/usr/bin/python3 must_work=${CORDON_MUST_WORK:-0} what=(tests/microvm)
	[ -n "${CORDON_MICROVM-}" ] || what+=(-m light)
	say "level microvm"
	run_pytest microvm "${what[@]}"
	collect_pytest $? microvm "${what[@]}"
}

# Another kernel, in a guest that takes what is left of the processors while the programs, the Python package
# and the adapters are tested: those use one of them at a time, and measure nothing.
kernels_pid=
kernels_start() {
	rm -rf build/kernels/results
	# A user alone: what only root can prepare is skipped there.
	(tools/install-deps.sh kernels && CORDON_MUST_WORK=0 KERNEL_JOBS=${KERNEL_JOBS:-1} \
		exec chrt --idle 0 nice -n 19 tools/test-kernels.sh short) >"$results/kernels.log" 2>&1 &
	kernels_pid=$!
}

kernels_end() {
	local status=0 xml name
	say "another kernel"
	wait "$kernels_pid" || status=$?
	kernels_pid=
	cat "$results/kernels.log"
	for xml in build/kernels/results/*/*.xml; do
		[ -f "$xml" ] || continue
		name=$(basename "${xml%/*}")
		cp "$xml" "$results/kernel-$name-$(basename "$xml")"
	done
	if ! compgen -G "$results/kernel-*.xml" >/dev/null; then
		failed "no test results of another kernel"
	elif [ $status -ne 0 ] && ! grep -qE '<(failure|error)' "$results"/kernel-*.xml; then
		failed "the other kernel ended with status $status"
	fi
}

wants() { [ ${#steps[@]} -eq 0 ] || [[ " ${steps[*]} " == *" $1 "* ]]; }
steps=("$@")

say "building with gcc"
tools/build.sh release gcc -Dwerror=true || failed "gcc build"
if wants clang; then
	say "building with clang"
	tools/build.sh clang clang-19 -Dwerror=true -Dpython=enabled || failed "clang build"
fi
if wants gcc; then
	say "C suites, plain build"
	meson_suites release
fi
if wants asan; then
	say "C suites, address and undefined-behaviour sanitizers"
	if tools/build.sh asan gcc -Dwerror=true -Db_sanitize=address,undefined -Db_lundef=false; then
		meson_suites asan
	else
		failed "sanitizer build"
	fi
fi

scratch=$(mktemp -d /tmp/cordon-test.XXXXXX)
trap '[ -z "$kernels_pid" ] || kill "$kernels_pid"; rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
prefix=

if { wants root || wants user || wants python || wants programs || wants microvm; } && ! prefix=$(tools/stage.sh "$scratch"); then
	failed "installing into $scratch"
elif [ "$(id -u)" -eq 0 ]; then
	others=()
	if wants root && wants user && [ -z "${PYTEST_ARGS-}" ]; then
		say "calm suites as root and as ordinary users, at the same time"
		together calm-root calm-prepared calm-largest calm-user
		others=("${calm[@]/#/--ignore=}")
		suites=(tests/integration tests/escape tests/limits)
	fi
	if wants root; then
		say "integration, escape, limit, network and workspace suites as root"
		suites+=("${others[@]}")
		pytest_suites root
	fi
	if wants user; then
		say "integration, escape, limit, network and workspace suites as an ordinary user (uid $test_uid)"
		# What only root can prepare has run above, for the same user.
		if wants root; then
			must_work=0
			# So have the slow tests.
			suites=(tests/integration tests/escape -m 'not slow' "${others[@]}"
				--ignore=tests/integration/test_kills.py --ignore=tests/integration/test_soak.py)
		fi
		uid=$test_uid
		pytest_suites user
	fi
elif wants user; then
	say "integration, escape, limit, network and workspace suites as $(id -un 2>/dev/null || id -u)"
	pytest_suites user
	echo "Not root: the parts that need root were skipped."
fi

if [[ " ${steps[*]} " == *" kernels "* ]] || { [ ${#steps[@]} -eq 0 ] && [ -n "${CORDON_KERNELS-}" ]; }; then
	kernels_start
fi
if [ -n "$prefix" ] && wants programs; then
	programs_suite
fi
if [ -n "$prefix" ] && wants microvm; then
	microvm_suite
fi
if [ -n "$prefix" ] && wants python; then
	must_work=${CORDON_MUST_WORK:-0}
	python_suites
fi

# The adapters that CORDON_ADAPTERS names; not by default, since this installs whole frameworks.
if [ -n "${CORDON_ADAPTERS-}" ] && [ ${#steps[@]} -eq 0 ]; then
	status=0
	# shellcheck disable=SC2086 # a list of words
	ADAPTER_WHO=user tools/test-adapters.sh $CORDON_ADAPTERS || status=$?
	cp build/results-adapters/*.xml "$results/" 2>/dev/null || failed "no test results of the adapters"
	if [ $status -ne 0 ] && ! grep -qE '<(failure|error)' build/results-adapters/*.xml; then
		failed "the adapters ended with status $status"
	fi
fi

[ -z "$kernels_pid" ] || kernels_end

say "results"
/usr/bin/python3 tools/summarise.py "$results" "$failures"
