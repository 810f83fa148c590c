#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make fuzz-git` does: hostile commands in repositories, judged with real git (fuzz/git/run.py), first the
# known ways, then others by chance. docs/testing.md describes it.
#
# GIT_FUZZ_SECONDS   by chance, for each version of git and each user (60)
# GIT_VERSIONS       releases of Debian whose git is built and used besides this machine's; may be empty
# SEED               of the chances: the same seed makes the same tries (the day)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

seconds=${GIT_FUZZ_SECONDS:-60}
seed=${SEED:-$(date +%F)}
read -r -a versions <<<"${GIT_VERSIONS-bullseye trixie sid}"
cordon=build/release/cmd/cordon/cordon
users=('')
[ "$(id -u)" -ne 0 ] || users+=(20001)

[ ${#versions[@]} -eq 0 ] || tools/build-git.sh "${versions[@]}" || echo "fuzz-git: going on without"
gits=(/usr/bin/git)
for release in "${versions[@]}"; do
	[ ! -x "build/git/$release/bin/git" ] || gits+=("build/git/$release/bin/git")
done

# A user must reach what he runs; the checkout may lie in a closed home directory.
scratch=$(mktemp -d /tmp/cordon-fuzz-git.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
cp "$cordon" "$scratch/cordon"
cp -r fuzz/git "$scratch/fuzz"
mkdir -m 1777 "$scratch/kept"

bad=0
for git in "${gits[@]}"; do
	fuzz=(/usr/bin/python3 -B "$scratch/fuzz/run.py" --cordon "$scratch/cordon" --git "$git")
	for user in "${users[@]}"; do
		as=()
		if [ -n "$user" ]; then
			as=(--user "$user")
			if ! setpriv --reuid "$user" --regid "$user" --clear-groups "$git" --version >/dev/null 2>&1; then
				echo "== $git is out of reach for $user"
				continue
			fi
		fi
		echo "== $("$git" --version), as ${user:-$(id -un 2>/dev/null || id -u)}"
		"${fuzz[@]}" "${as[@]}" --recipes || bad=$((bad + 1))
		"${fuzz[@]}" "${as[@]}" --seconds "$seconds" --seed "$seed" --smaller --keep "$scratch/kept" || bad=$((bad + 1))
	done
done
# Which of the payloads prove something.
"${fuzz[@]}" --kinds || bad=$((bad + 1))
if [ -n "$(ls "$scratch/kept")" ]; then
	mkdir -p build/fuzz-git
	cp "$scratch"/kept/* build/fuzz-git/
	echo "fuzz-git: findings are in build/fuzz-git; fuzz/git/run.py --replay FILE tries one again"
fi
[ $bad -eq 0 ]
