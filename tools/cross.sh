#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds Cordon for another architecture, in build/ARCH. Needs the set `cross` of tools/install-deps.sh.
#
#	tools/cross.sh ARCH [MESON_OPTION...]   configures (the first time) and builds
#	tools/cross.sh --file ARCH              fetches what it takes and prints the name of a cross file
#
# The compiler comes from Debian's packages for this machine. musl and Python's headers exist for the
# other architecture only: their packages are unpacked below build/cross/ARCH, by an apt of its own,
# and nothing is installed from them.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A debian_name=([aarch64]=arm64)
file_only=
if [ "${1-}" = --file ]; then
	file_only=1
	shift
fi
arch=${1-}
if [ -z "${debian_name[$arch]-}" ]; then
	echo "cross: unknown architecture '$arch' (known: ${!debian_name[*]})" >&2
	exit 2
fi
shift

base=$PWD/build/cross/$arch
root=$base/root
here=/usr/lib/$arch-linux-musl
include=/usr/include/$arch-linux-musl
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
python=$(/usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
packages=(musl musl-dev "lib$python-dev")
apt_options=(-q -o "Dir::Etc=$base/apt/etc" -o "Dir::State=$base/apt" -o "Dir::State::status=$base/apt/status"
	-o "Dir::State::lists=$base/apt/lists" -o "Dir::Cache=$base/apt/cache"
	-o "APT::Architecture=${debian_name[$arch]}" -o "APT::Architectures=${debian_name[$arch]}"
	-o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=3)

# This release's, as the headers of the compiler are.
fetch() {
	local mirror
	# shellcheck disable=SC2016 # apt's variables
	mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
		sed -n 's/^Debian Debian //p' | head -n 1)
	if [ -z "$mirror" ] || [ -z "$release" ]; then
		echo "cross: apt knows no Debian mirror" >&2
		return 1
	fi
	rm -rf "$base"
	mkdir -p "$base"/apt/{etc/preferences.d,etc/apt.conf.d,lists/partial,cache/archives/partial} "$root"
	: >"$base/apt/status"
	echo "deb [signed-by=$keyring] ${mirror%/} $release main" >"$base/apt/etc/sources.list"
	if ! (cd "$base" && apt-get "${apt_options[@]}" update && apt-get "${apt_options[@]}" download "${packages[@]}") \
		>"$base/fetch.log" 2>&1; then
		cat "$base/fetch.log" >&2
		return 1
	fi
	for deb in "$base"/*.deb; do
		dpkg-deb -x "$deb" "$root"
	done
	# The paths in it are those of an installed musl.
	sed -e "s|$here|$root$here|g" -e "s|$include|$root$include|g" "$root$here/musl-gcc.specs" >"$base/musl-gcc.specs"
	echo "${packages[*]}" >"$base/ready"
}

[ "$(cat "$base/ready" 2>/dev/null)" = "${packages[*]}" ] || fetch
# One file: not everything that calls meson can hand on two.
file=$base/all.cross
cat "tools/$arch.cross" - >"$file" <<END

[properties]
musl_specs = '$base/musl-gcc.specs'
kernel_headers = '/usr/$arch-linux-gnu/include'
python_headers = ['$root/usr/include/$python', '$root/usr/include']
END
if [ -n "$file_only" ]; then
	echo "$file"
	exit 0
fi
[ -f "build/$arch/build.ninja" ] || meson setup --cross-file "$file" "$@" "build/$arch"
ninja -C "build/$arch"
