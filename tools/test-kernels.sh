#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make test-kernels` does: boots Debian's kernels in QEMU, without acceleration, and runs the
# pytest suites inside, as root and as an ordinary user, with and without a control group of their
# own. Needs no root after the guest's disk is made. docs/testing.md describes it.
#
#	tools/test-kernels.sh           every kernel of KERNELS
#	tools/test-kernels.sh shell     a shell in a guest with the first of them
#	tools/test-kernels.sh list      which kernel each name stands for
#
# KERNELS         releases of Debian whose cloud kernel is tried, or directories with the .deb files of one
# KERNEL_CASES    WHO-PLACE, see tests/kernels/guest.sh
# KERNEL_SUITES   files and directories of tests, for every case
# KERNEL_MINUTES  per kernel; then the guest is switched off, which is a failure
# KERNEL_SLOW     the factor for the tests' time ceilings
# KERNEL_ARCH     x86_64 or aarch64; if it is not this machine's, the build of tools/cross.sh is tried
# KERNEL_MIRROR   a Debian mirror, if apt on this machine does not know one
# PYTEST_ARGS     handed to pytest
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

kernels=${KERNELS:-bookworm trixie trixie-backports}
cases=${KERNEL_CASES:-root-delegated user-delegated root-plain user-plain}
default_suites="tests/integration/test_cli_run.py tests/integration/test_cli_streams.py
	tests/integration/test_lifetime.py tests/escape/test_filesystem.py tests/escape/test_identity.py
	tests/escape/test_processes.py tests/escape/test_signals.py"
# The network tests that depend on the kernel. npm's is skipped: the package is too large.
default_suites+=" tests/net/test_net_end.py tests/net/test_net_gateway.py tests/net/test_net_landlock.py
	tests/net/test_net_publish.py tests/net/test_net_clients.py"
# The suites for which a control group makes a difference.
group_suites="tests/integration/test_lifetime.py"
if [ -d tests/limits ]; then
	default_suites="tests/limits $default_suites"
	group_suites="tests/limits $group_suites"
fi
suites=${KERNEL_SUITES:-$default_suites}
other_suites=${KERNEL_SUITES:-$group_suites}
minutes=${KERNEL_MINUTES:-25}
slow=${KERNEL_SLOW:-8}
arch=${KERNEL_ARCH:-$(uname -m)}
build=build/release base=$PWD/build/kernels wheels=build/python/dist
if [ "$arch" != "$(uname -m)" ]; then
	build=build/$arch base=$base-$arch wheels=build/python-$arch/dist
fi
case $arch in
x86_64)
	debian=amd64 console=ttyS0
	machine=(qemu-system-x86_64 -machine pc -cpu max)
	;;
aarch64)
	debian=arm64 console=ttyAMA0
	# Checking pointers as real processors do would take most of the time.
	machine=(qemu-system-aarch64 -machine virt -cpu "max,pauth-impdef=on")
	;;
*)
	echo "test-kernels: unknown architecture '$arch' (known: x86_64, aarch64)" >&2
	exit 1
	;;
esac
# The kernel's default leaves Landlock out on some builds; this order is Debian's, without the
# modules that need a policy.
cmdline="console=$console panic=-1 quiet lsm=landlock,lockdown,yama,integrity,apparmor"

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
guest_release=bookworm
guest_packages=python3,python3-pytest,gcc,g++,libc6-dev,pkg-config,git,strace,procps,util-linux,kmod
guest_packages+=,busybox-static,attr,iproute2,sqlite3,crun,runc,bubblewrap,nodejs,mandoc,scdoc
guest_packages+=,curl,openssl,openssh-client,openssh-server,python3-pip,ca-certificates
failures=0

say() { printf '\n== %s\n' "$*"; }
die() { echo "test-kernels: $*" >&2; exit 1; }
failed() { echo "FAILED: $*"; failures=$((failures + 1)); }

# --- packages, from an apt of our own: the machine's sources stay as they are ----------------------

apt_options=(-q -o "Dir::Etc=$base/apt/etc" -o "Dir::State=$base/apt" -o "Dir::State::status=$base/apt/status"
	-o "Dir::State::lists=$base/apt/lists" -o "Dir::Cache=$base/apt/cache" -o "APT::Architecture=$debian"
	-o "APT::Architectures=$debian"
	-o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=3)

mirror() {
	local found=${KERNEL_MIRROR-}
	if [ -z "$found" ]; then
		# shellcheck disable=SC2016 # apt's variables
		found=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
			sed -n 's/^Debian Debian //p' | head -n 1)
	fi
	echo "${found%/}"
}

# One list for all releases; each query names its release.
prepare_apt() {
	local from suite stamp=$base/apt/lists/updated
	from=$(mirror)
	[ -n "$from" ] || die "apt knows no Debian mirror; set KERNEL_MIRROR"
	mkdir -p "$base"/apt/{etc/preferences.d,etc/apt.conf.d,lists/partial,cache/archives/partial}
	: >>"$base/apt/status"
	for suite in bookworm bookworm-backports trixie trixie-backports sid; do
		echo "deb [signed-by=$keyring] $from $suite main"
	done >"$base/apt/etc/sources.new"
	for suite in bookworm trixie; do
		echo "deb [signed-by=$keyring] $from-security $suite-security main"
	done >>"$base/apt/etc/sources.new"
	if ! cmp -s "$base"/apt/etc/sources.{new,list}; then
		mv "$base"/apt/etc/sources.{new,list}
		rm -f "$stamp"
	fi
	[ -z "$(find "$stamp" -mtime -1 2>/dev/null)" ] || return 0
	if apt-get "${apt_options[@]}" update >"$base/apt/update.log" 2>&1; then
		touch "$stamp"
	else
		echo "test-kernels: the package lists could not be renewed ($base/apt/update.log)" >&2
	fi
}

# kernel_package RELEASE: the package its cloud kernel is in today, as NAME=VERSION
kernel_package() {
	local version
	# A release's security archive has the newer one, as on a machine that is kept up to date.
	version=$(apt-cache "${apt_options[@]}" madison "linux-image-cloud-$debian" |
		awk -F' *[|] *' -v release="$1" '{ split($3, at, /[ \/]/)
			for (i in at) if (at[i] == release || at[i] == release "-security") print $2 }' |
		sort -V | tail -n 1)
	[ -n "$version" ] || return 1
	depends "linux-image-cloud-$debian=$version" image
}

# depends PACKAGE KIND: what of the same version it depends on, linux-KIND-[0-9]..., as NAME=VERSION
depends() {
	apt-cache "${apt_options[@]}" show "$1" | sed -n 's/^Depends: //p' | tr ',' '\n' |
		sed -nE "s/^ *(linux-($2)-[0-9][^ ]*) \(= ([^)]*)\).*/\1=\3/p" | sort -u
}

# download PACKAGE DIR: newer releases keep the kernel and its modules in packages of their own
download() {
	local packages
	mapfile -t packages < <(echo "$1"; depends "$1" 'base|binary|modules')
	(cd "$2" && apt-get "${apt_options[@]}" download "${packages[@]}") >"$2/download.log" 2>&1
}

# fetch_kernel NAME: unpacks it below build/kernels/linux and prints where
fetch_kernel() {
	local package to deb version
	if [ -d "$1" ]; then
		package=$(basename "$1")
	else
		package=$(kernel_package "$1") && [ -n "$package" ] || return 1
	fi
	to=$base/linux/${package//[=~]/_}
	if [ ! -f "$to/ready" ] || [ -d "$1" ]; then
		rm -rf "$to"
		mkdir -p "$to/tree" "$to/lib/modules"
		if [ -d "$1" ]; then
			cp "$1"/*.deb "$to/"
		else
			download "$package" "$to"
		fi || return 1
		for deb in "$to"/*.deb; do
			dpkg-deb -x "$deb" "$to/tree" || return 1
		done
		version=$(basename "$(find "$to/tree" -path '*/lib/modules/*' -prune)")
		find "$to/tree" -name 'vmlinuz*' -type f -exec mv {} "$to/vmlinuz" \;
		find "$to/tree" -path "*/lib/modules/$version" -prune -exec mv {} "$to/lib/modules/" \;
		depmod -b "$to" "$version" && make_module_disk "$to" && [ -f "$to/vmlinuz" ] || return 1
		rm -rf "$to/tree" "$to"/*.deb
		echo "$version" >"$to/ready"
	fi
	echo "$to"
}

make_module_disk() {
	local size
	size=$(du -sm "$1/lib/modules" | cut -f 1)
	rm -f "$1/modules.img"
	truncate -s $((size * 5 / 4 + 16))M "$1/modules.img"
	mke2fs -q -t ext4 -E root_owner=0:0 -d "$1/lib/modules" "$1/modules.img"
}

# --- disks ----------------------------------------------------------------------------------------

# The guest's system, made once per list of packages.
make_root_disk() {
	local want sudo=() tree=$base/root.tree
	want="$guest_release $guest_packages"
	[ "$(cat "$base/root.packages" 2>/dev/null)" != "$want" ] || return 0
	[ "$(id -u)" -eq 0 ] || sudo=(sudo)
	if [ "$debian" != "$(dpkg --print-architecture)" ] && ! arch-test "$debian" >/dev/null; then
		echo "test-kernels: programs for $debian cannot run here, which making the disk takes:" \
			"qemu-user-static must be registered with binfmt_misc" >&2
		return 1
	fi
	say "making the guest's disk (Debian $guest_release, $debian)"
	"${sudo[@]}" rm -rf "$tree"
	"${sudo[@]}" mmdebstrap --quiet --architectures="$debian" --variant=minbase --mode=root --include="$guest_packages" \
		--aptopt='APT::Install-Recommends "false"' --dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		$guest_release "$tree" "deb [signed-by=$keyring] $(mirror) $guest_release main" || return 1
	cp "$tree/bin/busybox" "$base/busybox" || return 1
	"${sudo[@]}" mkdir -p "$tree/usr/lib/modules" "$tree/srv"
	# Sparse: what a test writes goes to a file that QEMU throws away.
	rm -f "$base/root.img"
	truncate -s 4G "$base/root.img"
	"${sudo[@]}" mke2fs -q -t ext4 -O ^has_journal -d "$tree" "$base/root.img" || return 1
	"${sudo[@]}" rm -rf "$tree"
	echo "$want" >"$base/root.packages"
}

# make_initramfs DIR: busybox, the drivers of the disks, and tests/kernels/init.sh
make_initramfs() {
	local dir=$1 tree=$1/initramfs module name
	rm -rf "$tree"
	mkdir -p "$tree"/{bin,dev,root,modules} || return 1
	cp "$base/busybox" "$tree/bin/busybox" && cp tests/kernels/init.sh "$tree/init" || return 1
	ln -s busybox "$tree/bin/sh"
	while read -r _ module _; do
		name=$(basename "$module")
		case $name in
		*.xz) name=${name%.xz} && xz -dc "$module" >"$tree/modules/$name" ;;
		*.zst) name=${name%.zst} && zstd -qdc "$module" >"$tree/modules/$name" ;;
		*) cp "$module" "$tree/modules/" ;;
		esac || return 1
		grep -qx "$name" "$tree/modules/order" 2>/dev/null || echo "$name" >>"$tree/modules/order"
	done < <(modprobe -d "$dir" -S "$(cat "$dir/ready")" --show-depends -a virtio_pci virtio_blk ext4 |
		grep '^insmod')
	[ -s "$tree/modules/order" ] || return 1
	(cd "$tree" && find . | cpio --quiet -o -H newc -R 0:0) >"$dir/initramfs.cpio"
}

# The product under test, and what to do with it, as a tar on a disk of its own.
make_payload() {
	local tree=$base/payload prefix name
	rm -rf "$tree"
	mkdir -p "$tree/cordon"
	prefix=$(tools/stage.sh "$tree/cordon" "$build") || return 1
	# The unit tests' programs: tests/kernels/test_units.py runs them.
	case "$suites $other_suites" in
	*test_units*)
		mkdir "$tree/cordon/units"
		for name in "$build"/tests/test_*; do
			[ ! -f "$name" ] || "$arch-linux-gnu-strip" -o "$tree/cordon/units/${name##*/}" "$name" || return 1
		done
		;;
	esac
	case "$suites $other_suites" in
	*test_wheel*)
		mkdir "$tree/cordon/wheels"
		cp "$wheels"/*.whl "$tree/cordon/wheels/" || return 1
		;;
	esac
	for name in CASES="$cases" DELEGATED_SUITES="$suites" OTHER_SUITES="$other_suites" \
		PYTEST_ARGS="${PYTEST_ARGS-}" SLOW="$slow" PREFIX="$prefix" MUST_WORK="${CORDON_MUST_WORK:-0}" SHELL_CASE="$1"; do
		printf '%s=%q\n' "${name%%=*}" "${name#*=}"
	done >"$tree/cordon/run.env"
	tar -cf "$base/payload.tar" --owner=0 --group=0 --numeric-owner -C "$tree" cordon
	rm -rf "$tree"
}

# --- guests ---------------------------------------------------------------------------------------

# boot DIR RESULTS QEMU_ARGS...
boot() {
	local dir=$1 out=$2
	shift 2
	rm -f "$out"
	truncate -s 64M "$out"
	# TMPDIR: where QEMU keeps what the guest writes to its root disk. Threads for the disks are made
	# at once, because QEMU aborts if it cannot have one later, on a machine that is short of them.
	TMPDIR=$base timeout --foreground --kill-after=10 $((minutes * 60)) "${machine[@]}" \
		-accel tcg,thread=multi -smp 2 -m 2048 -nographic -no-reboot -nic none \
		-object main-loop,id=loop,thread-pool-min=8,thread-pool-max=8 \
		-kernel "$dir/vmlinuz" -initrd "$dir/initramfs.cpio" -append "$cmdline" \
		-drive "file=$base/root.img,format=raw,if=virtio,snapshot=on,cache=unsafe" \
		-drive "file=$base/payload.tar,format=raw,if=virtio,read-only=on" \
		-drive "file=$out,format=raw,if=virtio,cache=unsafe" \
		-drive "file=$dir/modules.img,format=raw,if=virtio,read-only=on" "$@"
}

# run_kernel NAME: boots it, collects the results, prints a line per case
run_kernel() {
	local name dir log results status start=$SECONDS
	name=$(basename "$1")
	log=$base/$name.log
	results=$base/results/$name
	rm -rf "$results"
	mkdir -p "$results"
	if ! dir=$(fetch_kernel "$1") || ! make_initramfs "$dir"; then
		failed "$name: no such kernel to be had (an archive out of reach?)"
		return
	fi
	say "$name: Linux $(cat "$dir/ready") (log: ${log#"$PWD"/})"
	boot "$dir" "$results.tar" </dev/null >"$log" 2>&1
	status=$?
	tar -xf "$results.tar" -C "$results" 2>/dev/null
	rm -f "$results.tar"
	grep -aE '^(FAILED|ERROR) ' "$log" | tr -d '\r' | cut -c 1-200
	if [ $status -eq 124 ] || [ $status -eq 137 ]; then
		failed "$name: switched off after $minutes minutes"
	elif [ ! -f "$results/complete" ]; then
		failed "$name: the guest ended early (QEMU status $status); the end of the log:"
		tail -n 15 "$log"
	fi
	check_cases "$name" "$results"
	/usr/bin/python3 tools/summarise.py "$results" 0
	echo "$name: Linux $(cat "$dir/ready"): $(cat "$results/closing"), $((SECONDS - start)) s" >>"$base/results/lines"
}

# Every case must have left results, and a runner that failed must have named a test.
check_cases() {
	local name=$1 results=$2 one status
	for one in $cases; do
		status=$(cat "$results/$one.status" 2>/dev/null)
		if [ ! -f "$results/$one.xml" ]; then
			failed "$name: no test results of $one"
		elif [ "$status" != 0 ] && ! grep -qE '<(failure|error)' "$results/$one.xml"; then
			failed "$name: $one ended with status $status"
		fi
	done
}

list_kernels() {
	local name
	for name in $kernels; do
		printf '%-18s %s\n' "$name" "$(kernel_package "$name" || echo "not to be had")"
	done
}

shell() {
	local dir
	make_payload "${cases%% *}" || die "staging failed"
	if ! dir=$(fetch_kernel "${kernels%% *}") || ! make_initramfs "$dir"; then
		die "no such kernel to be had: ${kernels%% *}"
	fi
	minutes=1440
	boot "$dir" "$base/shell.tar"
	rm -f "$base/shell.tar"
}

run_all() {
	local name
	make_payload "" || die "staging failed"
	rm -rf "$base/results"
	mkdir -p "$base/results"
	: >"$base/results/lines"
	for name in $kernels; do
		run_kernel "$name"
	done
	say "results"
	cat "$base/results/lines"
	awk -v extra=$failures '{ for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) p += $(i - 1)
			if ($i ~ /^failed/) f += $(i - 1); if ($i ~ /^skipped/) s += $(i - 1) } }
		END { printf "%d passed, %d failed, %d skipped\n", p, f + extra, s; exit f + extra > 0 || p == 0 }' \
		"$base/results/lines"
}

main() {
	umask 022
	mkdir -p "$base"
	exec 9>"$base/lock"
	flock -n 9 || die "another one is at work in build/kernels"
	prepare_apt
	if [ "${1-}" = list ]; then
		list_kernels
		return
	fi
	make_root_disk || die "the guest's disk could not be made"
	[ -f "$build/build.ninja" ] || die "$build is missing; run make (or make cross ARCH=$arch) first"
	case ${1-} in
	'') run_all ;;
	shell) shell ;;
	*) die "unknown step '$1' (known: shell, list)" ;;
	esac
}

# One line: all of it has been read by then, and an edit of this file does not disturb a run.
main "$@"; exit
