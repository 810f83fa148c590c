#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds git as other releases of Debian have it, for `make fuzz-git`: build/git/RELEASE.
#
#	tools/build-git.sh [RELEASE...]     default: bullseye trixie sid
#
# GIT_MIRROR  a Debian mirror, if apt on this machine does not know one
#
# The sources come through an apt of our own, so the machine's settings stay as they are. A release
# that is there already is left alone; one that cannot be had is passed over with a line that says so.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

base=$PWD/build/git
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ $# -gt 0 ] || set -- bullseye trixie sid

apt_options=(-q -o "Dir::Etc=$base/apt/etc" -o "Dir::State=$base/apt" -o "Dir::State::status=$base/apt/status"
	-o "Dir::State::lists=$base/apt/lists" -o "Dir::Cache=$base/apt/cache" -o APT::Sandbox::User=
	-o Acquire::Languages=none -o Acquire::Retries=3)

say() { echo "build-git: $*" >&2; }

mirror() {
	local found=${GIT_MIRROR-}
	if [ -z "$found" ]; then
		# shellcheck disable=SC2016 # apt's variables
		found=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
			sed -n 's/^Debian Debian //p' | head -n 1)
	fi
	echo "${found%/}"
}

# fetch RELEASE DIR: unpacks its upstream sources there. One list at a time: `apt-get source` takes
# the newest version it knows.
fetch() {
	local from
	from=$(mirror)
	[ -n "$from" ] || { say "apt knows no Debian mirror; set GIT_MIRROR"; return 1; }
	rm -rf "$base/apt" "$2"
	mkdir -p "$base"/apt/{etc/preferences.d,etc/apt.conf.d,lists/partial,cache/archives/partial} "$2/tree"
	: >"$base/apt/status"
	echo "deb-src [signed-by=$keyring] $from $1 main" >"$base/apt/etc/sources.list"
	apt-get "${apt_options[@]}" update &&
		(cd "$2" && apt-get "${apt_options[@]}" source --download-only git) &&
		tar -xf "$2"/git_*.orig.tar.xz -C "$2/tree" --strip-components=1
}

# Without what the fuzzer does not use: translations, scripts, transports over HTTP, documents.
compile() {
	nice make -C "$1/tree" -j "$(nproc)" CFLAGS='-O1 -w' prefix="$2" NO_GETTEXT=1 NO_TCLTK=1 NO_PERL=1 \
		NO_PYTHON=1 NO_CURL=1 NO_EXPAT=1 NO_OPENSSL=1 NO_RUST=1 NO_INSTALL_HARDLINKS=1 INSTALL_SYMLINKS=1 install
}

status=0
mkdir -p "$base"
for release in "$@"; do
	[ ! -x "$base/$release/bin/git" ] || continue
	say "git of Debian $release"
	if fetch "$release" "$base/src-$release" >"$base/$release.log" 2>&1 </dev/null &&
		compile "$base/src-$release" "$base/$release" >>"$base/$release.log" 2>&1 </dev/null; then
		rm -rf "$base/src-$release" "$base/apt"
	else
		say "failed (${base#"$PWD"/}/$release.log)"
		rm -rf "${base:?}/$release"
		status=1
	fi
done
exit $status
