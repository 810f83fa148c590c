#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make lint` does. Every check runs even if one before it failed.
#
#	tools/lint.sh [CHECK...]     only these, e.g. tools/lint.sh format layers
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

jobs=$(nproc)
log=build/lint
mkdir -p $log
only=("$@")
failed=()

# check NAME COMMAND...: quiet when good
check() {
	local name=$1 start=$SECONDS
	shift
	if [ ${#only[@]} -gt 0 ] && [[ " ${only[*]} " != *" $name "* ]]; then
		return 0
	fi
	if "$@" >"$log/$name.log" 2>&1; then
		printf '  %-12s ok (%ds)\n' "$name" $((SECONDS - start))
	else
		printf '  %-12s FAILED\n' "$name"
		sed 's/^/    /' "$log/$name.log" | head -n 80
		failed+=("$name")
	fi
}

# A checkout without git (an unpacked release) is linted too.
files() {
	if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		git ls-files -co --exclude-standard
	else
		find . -path ./build -prune -o -type f -printf '%P\n'
	fi | while read -r f; do [ ! -f "$f" ] || echo "$f"; done | sort
}
mapfile -t all < <(files)
mapfile -t c_files < <(printf '%s\n' "${all[@]}" | grep -E '\.[ch]$')
mapfile -t product < <(printf '%s\n' "${c_files[@]}" | grep -E '^(src|cmd|bindings)/.*\.c$')
mapfile -t scripts < <(printf '%s\n' "${all[@]}" | grep -E '^(tools|bench|tests|examples)/.*\.sh$|^\.ci/run$')

format() {
	clang-format-19 --dry-run -Werror "${c_files[@]}" >$log/format.full 2>&1 && return 0
	echo "not in the house format (make format repairs it; details in $log/format.full):"
	sed -n 's/^\([^: ]*\.[ch]\):[0-9].*/  \1/p' $log/format.full | sort | uniq -c
	return 1
}

# Both compilers: gcc's objects are what ships and what the symbol check reads; clang's commands are
# what clang-tidy understands, and generated sources must exist for it.
builds() {
	tools/build.sh release gcc -Dwerror=true && tools/build.sh clang clang-19 -Dwerror=true -Dpython=enabled
}

tidy() {
	python3 tools/compile-commands.py build/clang $log/compile_commands.json >$log/tidy.files &&
		xargs -a $log/tidy.files -P "$jobs" -n 3 clang-tidy-19 --quiet -p $log 2>$log/tidy.stderr
}

analyse() {
	cppcheck --quiet --error-exitcode=1 --std=c11 --language=c -j "$jobs" \
		--enable=warning,performance,portability --inline-suppr \
		--suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches \
		--suppress=unknownMacro \
		-D_GNU_SOURCE -D__x86_64__ '-DPy_RETURN_NONE=return Py_None' -Iinclude -Isrc "${product[@]}"
}

complexity() {
	pmccabe "${product[@]}" | awk '$1 > 25 { print $6 ": " $7 " has complexity " $1 " (more than 25)"; bad = 1 }
		$5 > 100 { print $6 ": " $7 " has " $5 " lines (more than 100)"; bad = 1 } END { exit bad }'
}

lengths() {
	printf '%s\n' "${all[@]}" | grep -E '\.(c|h|py|sh)$' | xargs wc -l |
		awk '$2 != "total" && $1 > 800 { print $2 ": " $1 " lines (more than 800)"; bad = 1 } END { exit bad }'
}

# The tree must not mention the machine on which a change was made.
words() {
	python3 tools/check-words.py "${all[@]}"
}

layers() { python3 tools/check-layers.py --self-test && python3 tools/check-layers.py; }
sources() { python3 tools/update-sources.py --check; }
symbols() { tools/check-init-symbols.sh build/release; }
shell() { shellcheck -x --source-path=SCRIPTDIR "${scripts[@]}"; }
python_syntax() {
	printf '%s\n' "${all[@]}" | grep -E '\.py$' | xargs -r python3 -c '
import ast, sys
for name in sys.argv[1:]:
    ast.parse(open(name, encoding="utf-8").read(), name)'
}
# Types of the Python package; pyproject.toml says how strictly.
types() {
	tools/venv.sh build/lint-venv tools/python/lint.txt &&
		build/lint-venv/bin/mypy --cache-dir $log/mypy &&
		tools/check-types.py build/lint-venv/bin/mypy build/lint-venv/bin/basedpyright
}
# scdoc leaves paragraph marks before headings, which mandoc skips with a warning each.
man_pages() {
	local page bad=0
	for page in build/release/man/*.[1-8]; do
		[ -f "$page" ] || continue
		mandoc -T lint -W warning "$page" | grep -v 'skipping paragraph macro: PP' && bad=1
	done
	return $bad
}

check sources sources
check layers layers
check words words
check lengths lengths
check complexity complexity
check shell shell
check python python_syntax
check mypy types
check format format
check builds builds
check symbols symbols
check man man_pages
check cppcheck analyse
check tidy tidy

if [ ${#failed[@]} -gt 0 ]; then
	echo "lint: ${#failed[@]} failed: ${failed[*]}"
	exit 1
fi
echo "lint: all good"
