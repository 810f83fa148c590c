#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make test-kernels` does: boots Debian's kernels in QEMU, without acceleration, and runs the
# pytest suites inside, as root and as an ordinary user, with and without a control group of their
# own. Needs no root after the guest's disk is made. docs/testing.md describes it.
#
#	tools/test-kernels.sh           every kernel of KERNELS
#	tools/test-kernels.sh short     what stands for the rest: Debian 12's kernel, a user, escape and command
#	tools/test-kernels.sh shell     a shell in a guest with the first of them
#	tools/test-kernels.sh list      which kernel each name stands for
#
# KERNELS         releases of Debian whose cloud kernel is tried, or directories with the .deb files of one
# KERNEL_CASES    WHO-PLACE, see tests/kernels/guest.sh
# KERNEL_SUITES   files and directories of tests, for every case
# KERNEL_MINUTES  per kernel; then the guests are switched off, which is a failure
# KERNEL_JOBS     guests at a time, which share the files of tests
# KERNEL_CPUS     of each guest
# KERNEL_SLOW     the factor for the tests' time ceilings
# KERNEL_ARCH     x86_64 or aarch64; if it is not this machine's, the build of tools/cross.sh is tried
# KERNEL_MIRROR   a Debian mirror, if apt on this machine does not know one
# KERNEL_MARKS    which tests, by pytest's marks ('' for all of them)
# KERNEL_SHORT    1: of each test the first case at each level (tests/kernels/short.py)
# PYTEST_ARGS     handed to pytest
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

if [ "${1-}" = short ]; then
	: "${KERNELS:=bookworm}" "${KERNEL_CASES:=user-plain}" "${KERNEL_SHORT:=1}" "${KERNEL_MINUTES:=20}"
	: "${KERNEL_SUITES:=tests/escape tests/integration/test_cli_run.py}"
fi
kernels=${KERNELS:-bookworm trixie trixie-backports}
cases=${KERNEL_CASES:-root-delegated user-delegated root-plain user-plain}
all_suites="tests/escape tests/integration tests/limits tests/net tests/workspace"
# The suites for which a control group of one's own makes a difference.
group_suites="tests/limits tests/integration/test_lifetime.py tests/integration/test_end.py
	tests/integration/test_shapes.py"
delegated_suites=${KERNEL_SUITES:-$group_suites}
other_suites=${KERNEL_SUITES:-$all_suites}
minutes=${KERNEL_MINUTES:-60}
slow=${KERNEL_SLOW:-8}
marks=${KERNEL_MARKS-not slow}
pytest_args=${PYTEST_ARGS-}
[ -z "${KERNEL_SHORT-}" ] || pytest_args+=" -p tests.kernels.short"
jobs=${KERNEL_JOBS:-$(nproc)}
cpus=${KERNEL_CPUS:-1}
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
# Mitigations cost a tenth of the time and change nothing that a test can see.
cmdline="console=$console panic=-1 quiet mitigations=off nosoftlockup rcupdate.rcu_cpu_stall_suppress=1 lsm=landlock,lockdown,yama,integrity,apparmor"
guests=()
# Below Cordon's minimum. There tests/kernels/test_too_old.py is all that runs.
too_old=bullseye

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
guest_release=bookworm
guest_packages=python3,python3-pytest,gcc,g++,libc6-dev,pkg-config,git,strace,procps,util-linux,kmod
guest_packages+=,busybox-static,attr,iproute2,sqlite3,crun,runc,bubblewrap,nodejs,mandoc,scdoc
guest_packages+=,musl-tools,make,rsync,curl,openssl,openssh-client,openssh-server,python3-pip,ca-certificates
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
	local from suite old='' stamp=$base/apt/lists/updated
	from=$(mirror)
	[ -n "$from" ] || die "apt knows no Debian mirror; set KERNEL_MIRROR"
	mkdir -p "$base"/apt/{etc/preferences.d,etc/apt.conf.d,lists/partial,cache/archives/partial}
	: >>"$base/apt/status"
	# It leaves the mirrors one day, and a list that names it cannot be renewed then.
	[[ " $kernels " != *" $too_old "* ]] || old=$too_old
	for suite in $old bookworm bookworm-backports trixie trixie-backports sid; do
		echo "deb [signed-by=$keyring] $from $suite main"
	done >"$base/apt/etc/sources.new"
	for suite in $old bookworm trixie; do
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
	# What it mounts is nobody else's: a test beside this may grant everything there is.
	"${sudo[@]}" unshare --mount mmdebstrap --quiet --architectures="$debian" --variant=minbase --mode=root --include="$guest_packages" \
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

# deal_suites DIR: which files of tests each guest runs, DIR/part.N
deal_suites() {
	local part delegated other
	# shellcheck disable=SC2086 # lists of words
	{
		mapfile -t delegated < <(tests/kernels/deal.py "$jobs" "$base/times" $delegated_suites)
		mapfile -t other < <(tests/kernels/deal.py "$jobs" "$base/times" $other_suites)
	}
	rm -rf "$base/parts"
	mkdir -p "$base/parts"
	for ((part = 1; part <= jobs; part++)); do
		printf 'DELEGATED_SUITES=%q\nOTHER_SUITES=%q\n' "${delegated[part - 1]-}" "${other[part - 1]-}" \
			>"$base/parts/part.$part"
	done
	cp "$base"/parts/part.* "$1/"
}

# compile_probes DIR: as tests/conftest.py does on first use, which takes minutes in a guest
compile_probes() {
	local source
	mkdir -p "$1"
	# Those that use the library are no probes of this kind.
	grep -L cordon/cordon.h tests/{escape,limits,net,workspace}/probes/*.c | while read -r source; do
		echo "$1/$(basename "$source" .c) $source"
	done | xargs -P "$jobs" -L 1 "$arch-linux-gnu-gcc" -std=gnu17 -D_GNU_SOURCE -O1 -static -Wall -Wextra -Werror -lpthread -o
}

# The product under test, and what to do with it, as a tar on a disk of its own.
make_payload() {
	local tree=$base/payload prefix name
	rm -rf "$tree"
	mkdir -p "$tree/cordon"
	prefix=$(tools/stage.sh "$tree/cordon" "$build") || return 1
	# The unit tests' programs: tests/kernels/test_units.py runs them.
	case "$delegated_suites $other_suites" in
	*test_units*)
		mkdir "$tree/cordon/units"
		for name in "$build"/tests/test_*; do
			[ ! -f "$name" ] || "$arch-linux-gnu-strip" -o "$tree/cordon/units/${name##*/}" "$name" || return 1
		done
		;;
	esac
	case "$delegated_suites $other_suites" in
	*test_wheel*)
		mkdir "$tree/cordon/wheels"
		cp "$wheels"/*.whl "$tree/cordon/wheels/" || return 1
		;;
	esac
	deal_suites "$tree/cordon" && compile_probes "$tree/cordon/probes" || return 1
	for name in CASES="$cases" PYTEST_ARGS="$pytest_args" MARKS="$marks" SLOW="$slow" PREFIX="$prefix" MUST_WORK="${CORDON_MUST_WORK:-0}" SHELL_CASE="$1"; do
		printf '%s=%q\n' "${name%%=*}" "${name#*=}"
	done >"$tree/cordon/run.env"
	tar -cf "$base/payload.tar" --owner=0 --group=0 --numeric-owner -C "$tree" cordon
	rm -rf "$tree"
}

# --- guests ---------------------------------------------------------------------------------------

# boot DIR RESULTS PART QEMU_ARGS...
boot() {
	local dir=$1 out=$2 part=$3
	shift 3
	rm -f "$out"
	truncate -s 64M "$out"
	# TMPDIR: where QEMU keeps what the guest writes to its root disk. Threads for the disks are made
	# at once, because QEMU aborts if it cannot have one later, on a machine that is short of them.
	trap - EXIT INT TERM
	TMPDIR=$base exec timeout --foreground --kill-after=10 $((minutes * 60)) "${machine[@]}" \
		-accel tcg,thread=multi -smp "$cpus" -m 2048 -nographic -no-reboot -nic none \
		-object main-loop,id=loop,thread-pool-min=8,thread-pool-max=8 \
		-kernel "$dir/vmlinuz" -initrd "$dir/initramfs.cpio" -append "$cmdline cordon.part=$part" \
		-drive "file=$base/root.img,format=raw,if=virtio,snapshot=on,cache=unsafe" \
		-drive "file=$base/payload.tar,format=raw,if=virtio,read-only=on" \
		-drive "file=$out,format=raw,if=virtio,cache=unsafe" \
		-drive "file=$dir/modules.img,format=raw,if=virtio,read-only=on" "$@"
}

# run_kernel NAME: boots it in as many guests as there are parts, collects the results
run_kernel() {
	local name dir part pids=() results start=$SECONDS jobs=$jobs cmdline=$cmdline
	name=$(basename "$1")
	results=$base/results/$name
	rm -rf "$results"
	mkdir -p "$results"
	if ! dir=$(fetch_kernel "$1") || ! make_initramfs "$dir"; then
		failed "$name: no such kernel to be had (an archive out of reach?)"
		return
	fi
	say "$name: Linux $(cat "$dir/ready") (logs: build/kernels/$name.PART.log)"
	rm -f "$base/$name".*.log
	if [ "$name" = "$too_old" ]; then
		jobs=1
		cmdline+=" cordon.too_old"
	fi
	for ((part = 1; part <= jobs; part++)); do
		boot "$dir" "$results.$part.tar" "$part" </dev/null >"$base/$name.$part.log" 2>&1 &
		pids+=($!)
		guests+=($!)
	done
	for ((part = 1; part <= jobs; part++)); do
		wait "${pids[part - 1]}"
		collect "$name" "$part" $?
	done
	guests=()
	/usr/bin/python3 tools/summarise.py "$results" 0
	[ -n "${PYTEST_ARGS-}" ] || tests/kernels/deal.py --times "$base/times" "$results"
	echo "$name: Linux $(cat "$dir/ready"): $(cat "$results/closing"), $((SECONDS - start)) s" >>"$base/results/lines"
}

# collect NAME PART STATUS: what a guest has left. Every case that had tests must have left results, and a
# runner that failed must have named a test.
collect() {
	local name=$1 part=$2 status=$3 to=$base/results/$1 one log=$base/$1.$2.log got=$base/results/got
	rm -rf "$got"
	mkdir -p "$got"
	tar -xf "$to.$part.tar" -C "$got" 2>/dev/null
	rm -f "$to.$part.tar"
	grep -aE '^(FAILED|ERROR) ' "$log" | tr -d '\r' | cut -c 1-200
	if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
		failed "$name, part $part: switched off after $minutes minutes"
	elif [ ! -f "$got/complete" ]; then
		failed "$name, part $part: the guest ended early (QEMU status $status); the end of the log:"
		tail -n 15 "$log"
	fi
	for one in $cases; do
		status=$(cat "$got/$one.status" 2>/dev/null)
		if [ "$status" = empty ]; then
			continue
		elif [ ! -f "$got/$one.xml" ]; then
			failed "$name: no test results of $one, part $part"
			continue
		elif [ "$status" != 0 ] && ! grep -qE '<(failure|error)' "$got/$one.xml"; then
			failed "$name: $one, part $part ended with status $status"
		fi
		mv "$got/$one.xml" "$to/$one.$part.xml"
	done
	rm -rf "$got"
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
	(boot "$dir" "$base/shell.tar" 1)
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

# Guests in the background do not hear an interrupt at the terminal.
# shellcheck disable=SC2317 # called by a trap
end_guests() {
	[ ${#guests[@]} -eq 0 ] || kill "${guests[@]}" 2>/dev/null
}

main() {
	umask 022
	trap end_guests EXIT
	trap 'exit 130' INT TERM
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
	'' | short) run_all ;;
	shell) shell ;;
	*) die "unknown step '$1' (known: short, shell, list)" ;;
	esac
}

# One line: all of it has been read by then, and an edit of this file does not disturb a run.
main "$@"; exit
