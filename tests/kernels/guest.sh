#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PID 1 of a guest: prepares the machine, runs the suites once for every case, hands the results
# back on a disk and switches the machine off. What to run is in /srv/cordon/run.env and
# /srv/cordon/part.N, written by tools/test-kernels.sh.
#
# A case is WHO-PLACE: root or user, in a control group that is
#	delegated	the caller's own, as below a systemd user manager (or a service with Delegate=)
#	plain		root's, as after a login over the network
#	none		invisible: there is no control group file system
set -u
here=/srv/cordon
results=/srv/results
uid=20001
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# shellcheck source=/dev/null
. $here/run.env

# finish: the results so far onto the disk, and the machine off. Without acpid the quickest way off
# is a reset, which QEMU is told to take as the end.
finish() {
	tar -cf /dev/vdc -C $results .
	sync
	busybox reboot -f
}

prepare_machine() {
	mount -t proc -o nosuid,nodev,noexec proc /proc
	mount -t sysfs -o nosuid,nodev,noexec sys /sys
	mkdir -p /dev/pts /dev/shm $results
	mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
	mount -t tmpfs -o mode=1777,nosuid,nodev shm /dev/shm
	ln -sfn /proc/self/fd /dev/fd
	ln -sfn fd/0 /dev/stdin
	ln -sfn fd/1 /dev/stdout
	ln -sfn fd/2 /dev/stderr
	ip link set lo up
	hostname guest
	# Files every system has; what they say is of no matter here, for there is no network.
	printf '127.0.0.1 localhost guest\n::1 localhost\n' >/etc/hosts
	echo 'nameserver 127.0.0.1' >/etc/resolv.conf
	# The kernel's own messages are for the log of a crash, not between the lines of the results.
	dmesg -n 4
	# The options systemd mounts it with.
	mount -t cgroup2 -o nsdelegate,memory_recursiveprot cgroup2 /sys/fs/cgroup
}

cg=/sys/fs/cgroup
user_manager=$cg/user.slice/user-$uid.slice/user@$uid.service
root_service=$cg/system.slice/cordon-test.service

controllers() { echo "+cpu +memory +pids" >"$1/cgroup.subtree_control"; }

# What systemd makes of a session with a user manager, and of a service with Delegate=yes.
prepare_cgroups() {
	mkdir -p "$user_manager" "$cg/user.slice/user-$uid.slice/session-1.scope" \
		"$root_service/main" $cg/user.slice/user-0.slice/session-2.scope
	controllers $cg
	for d in user.slice user.slice/user-$uid.slice user.slice/user-0.slice system.slice; do
		controllers "$cg/$d"
	done
	chown $uid:$uid "$user_manager" \
		"$user_manager"/cgroup.{procs,threads,subtree_control}
	setfattr -n user.delegate -v 1 "$user_manager"
	setfattr -n trusted.delegate -v 1 "$user_manager"
	as_user mkdir -p "$user_manager/app.slice/cordon-test.scope" "$user_manager/init.scope"
	as_user bash -c "echo '+cpu +memory +pids' >'$user_manager/cgroup.subtree_control' &&
		echo '+cpu +memory +pids' >'$user_manager/app.slice/cgroup.subtree_control'"
	setfattr -n user.delegate -v 1 "$root_service"
	setfattr -n trusted.delegate -v 1 "$root_service"
	controllers "$root_service"
}

as_user() { setpriv --reuid $uid --regid $uid --clear-groups "$@"; }

# enter CASE: moves this process into the case's control group
enter() {
	local group
	case $1 in
	root-delegated) group=$root_service/main ;;
	user-delegated) group=$user_manager/app.slice/cordon-test.scope ;;
	root-*) group=$cg/user.slice/user-0.slice/session-2.scope ;;
	user-*) group=$cg/user.slice/user-$uid.slice/session-1.scope ;;
	esac
	echo "$BASHPID" >"$group/cgroup.procs" || return 1
	case $1 in
	*-none) umount $cg ;;
	esac
}

# in_case CASE COMMAND...: in its control group, as its user, with a clean environment
in_case() {
	local name=$1 home=/home/$1 wrapper=()
	shift
	mkdir -p "$home/tmp" "$home/results"
	case $name in
	user-*)
		chown -R $uid:$uid "$home"
		wrapper=(setpriv --reuid "$uid" --regid "$uid" --clear-groups)
		;;
	esac
	export -f enter
	export root_service user_manager cg uid
	# A mount namespace of its own, or "none" would be so for the cases after it.
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount bash -c 'enter "$0" || exit 99; cd /srv/cordon/src && exec "$@"' "$name" \
		"${wrapper[@]}" env -i PATH="$PATH" HOME="$home" LANG=C.UTF-8 TMPDIR="$home/tmp" \
		PYTHONDONTWRITEBYTECODE=1 CORDON="$here/install$PREFIX/bin/cordon" \
		CORDON_FAULT=$here/cordon-fault CORDON_PREFIX="$here/install$PREFIX" \
		CORDON_SOURCE=$here/src CORDON_TEST_PROBES=$here/probes CORDON_UNITS=$here/units \
		CORDON_WHEELS=$here/wheels \
		CORDON_MUST_WORK="$MUST_WORK" CORDON_TEST_SLOW="$SLOW" \
		CORDON_TEST_WHO="${name%%-*}" CORDON_TEST_CGROUP="${name#*-}" "$@"
}

# The facts a reader of a failure needs first; and what must hold, or the results mean nothing.
describe() {
	# shellcheck disable=SC2016 # expanded by the inner shell
	local facts='head -n 1 /proc/self/cgroup; "$CORDON" check'
	echo "== kernel $(uname -r), $(cat /sys/kernel/security/lsm 2>/dev/null), case $1"
	in_case "$1" bash -c "$facts"
}

run_case() {
	local name=$1 suites start=$SECONDS status=0
	case $name in
	*-delegated) suites=$DELEGATED_SUITES ;;
	*) suites=$OTHER_SUITES ;;
	esac
	if [ -z "$suites" ]; then
		echo empty >"$results/$name.status"
		return
	fi
	describe "$name"
	# shellcheck disable=SC2086 # lists of words
	in_case "$name" /usr/bin/python3 -m pytest -v -rs --color=no -p no:cacheprovider -p tests.kernels.at_once --durations=20 \
		--junitxml="/home/$name/results/out.xml" -m "$MARKS" $PYTEST_ARGS $suites || status=$?
	echo "== case $name: status $status, $((SECONDS - start)) s"
	cp "/home/$name/results/out.xml" "$results/$name.xml"
	echo $status >"$results/$name.status"
	rm -rf "/home/${name:?}"
	# A machine that is switched off for taking too long has shown something, too.
	tar -cf /dev/vdc -C $results .
}

prepare_machine
# shellcheck source=/dev/null
. "$here/part.$(sed -n 's/.*cordon\.part=\([0-9]*\).*/\1/p' /proc/cmdline)"
if grep -q cordon.too_old /proc/cmdline; then
	DELEGATED_SUITES=tests/kernels/test_too_old.py
	OTHER_SUITES=$DELEGATED_SUITES
fi
mount -t securityfs securityfs /sys/kernel/security
prepare_cgroups || echo "guest: the control groups could not be set up"
if [ -n "$SHELL_CASE" ]; then
	in_case "$SHELL_CASE" busybox setsid busybox cttyhack bash -i
	finish
fi
for name in $CASES; do
	run_case "$name"
done
echo "== all cases done after $SECONDS s"
touch $results/complete
finish
