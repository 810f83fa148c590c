#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a task needs, if any is missing, and says so first.
#
#	tools/install-deps.sh SET...      sets: build cross python lint test kernels kernels-arm gits fuzz bench light programs
#	tools/install-deps.sh --list SET...
#
# Why each package is needed: docs/dependencies.md. Nothing is downloaded when all are there.
# COMMAND=PACKAGE stands for a program that may have come in another way, too.
set -euo pipefail

declare -A sets=(
	[build]="gcc libc6-dev binutils make meson ninja-build pkg-config python3 scdoc
		musl-tools"
	[python]="python3-dev python3-venv"
	[lint]="clang-19 clang-format-19 clang-tidy-19 cppcheck pmccabe shellcheck mandoc"
	[test]="g++ esbuild=esbuild clang-19 python3-pytest strace git procps util-linux sqlite3
		crun runc bubblewrap nodejs mandoc iproute2 openssl curl openssh-client openssh-server
		python3-pip busybox=busybox-static qemu-system-x86 xz-utils"
	[kernels]="qemu-system-x86 mmdebstrap cpio e2fsprogs kmod xz-utils zstd debian-archive-keyring"
	[cross]="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static debian-archive-keyring"
	[kernels-arm]="qemu-system-arm qemu-user-static arch-test"
	[gits]="dpkg-dev zlib1g-dev xz-utils debian-archive-keyring"
	[fuzz]="clang-19 libclang-rt-19-dev"
	[bench]="bubblewrap git sqlite3 procps"
	[light]="make gcc git sqlite3 redis-server nginx=nginx-light convert=imagemagick tmux vim=vim gdb
		perl ruby php=php-cli nodejs jq rsync tar zip unzip gpg openssh-client dot=graphviz curl
		python3-venv man=man-db"
	[programs]="python3-pip npm=npm cargo=cargo go=golang-go mvn=maven javac=default-jdk-headless postgresql
		chromium soffice=libreoffice-writer-nogui pdflatex=texlive-latex-base Rscript=r-base-core
		ffmpeg pandoc cmake"
)

list_only=
if [ "${1-}" = --list ]; then
	list_only=1
	shift
fi

wanted=()
for name in build "$@"; do
	if [ -z "${sets[$name]-}" ]; then
		echo "install-deps: unknown set '$name' (known: ${!sets[*]})" >&2
		exit 2
	fi
	read -r -d '' -a packages <<<"${sets[$name]}" || true
	wanted+=("${packages[@]}")
done
mapfile -t wanted < <(printf '%s\n' "${wanted[@]}" | sort -u)

if [ -n "$list_only" ]; then
	printf '%s\n' "${wanted[@]#*=}"
	exit 0
fi

if ! command -v dpkg-query >/dev/null; then
	echo "install-deps: this is not a Debian system; the build needs the equivalents of:" >&2
	echo "    ${wanted[*]#*=}" >&2
	exit 0
fi

missing=()
for package in "${wanted[@]}"; do
	if [[ $package == *=* ]]; then
		(PATH=/usr/bin:/bin:/usr/sbin:/sbin && command -v "${package%%=*}") >/dev/null ||
			missing+=("${package#*=}")
		continue
	fi
	status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
	exit 0
fi

echo "Installing Debian packages: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "install-deps: not root and no sudo; install these packages yourself" >&2
		exit 1
	fi
	as_root=(sudo)
fi
# Debian starts the servers that it installs, but these are here to be started by tests only.
no_services=/usr/sbin/policy-rc.d
if [[ " $* " == *" light "* || " $* " == *" programs "* ]] && [ ! -e $no_services ]; then
	printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" install -m 755 /dev/stdin $no_services
	trap '"${as_root[@]}" rm -f $no_services' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt_get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y
	-o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
"${apt_get[@]}" update >/dev/null || echo "install-deps: apt-get update failed, trying with the lists at hand" >&2
"${apt_get[@]}" install --no-install-recommends "${missing[@]}" >/dev/null
echo "Installed."
