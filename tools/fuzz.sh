#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: fuzz.sh SECONDS. Builds every fuzz target with libFuzzer and the sanitizers and runs each
# for that long over its corpus; new inputs stay in build/fuzz/corpus, crashes in build/fuzz/crashes.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-30}
build=build/fuzz

if [ ! -f $build/build.ninja ]; then
	CC=clang-19 meson setup $build -Dfuzzers=true -Db_sanitize=address,undefined \
		-Db_lundef=false >/dev/null
fi
targets=()
for source in fuzz/fuzz_*.c; do
	targets+=("fuzz/$(basename "$source" .c)")
done
ninja -C $build --quiet "${targets[@]}"

status=0 ran=0
for source in fuzz/fuzz_*.c; do
	name=$(basename "$source" .c)
	target=${name#fuzz_}
	mkdir -p "$build/corpus/$target" $build/crashes
	echo "== $target, ${seconds}s"
	log=$build/$name.log
	if "$build/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
		-artifact_prefix="$build/crashes/$target-" -print_final_stats=1 \
		"$build/corpus/$target" "fuzz/corpus/$target" >"$log" 2>&1; then
		grep -E 'number_of_executed_units|^Done' "$log" || true
	else
		status=1
		tail -n 40 "$log"
		echo "== $target FAILED; the input is in $build/crashes"
	fi
	ran=$((ran + 1))
done
echo "$ran fuzz targets run, $([ $status -eq 0 ] && echo no crash || echo CRASHES)"
[ $ran -gt 0 ] && exit $status
exit 1
