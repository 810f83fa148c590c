#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first program of a guest, in its initramfs (busybox): finds the disks and moves onto the real
# root. An initramfs as the root will not do, because pivot_root cannot leave it.
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
while read -r module; do
	insmod "/modules/$module"
done </modules/order
# The drivers are loaded, but disks appear when they please.
tries=0
while [ ! -b /dev/vdd ] && [ $tries -lt 200 ]; do
	tries=$((tries + 1))
	usleep 50000
done
mount -t ext4 /dev/vda /root
mount -t ext4 -o ro /dev/vdd /root/usr/lib/modules
mkdir -p /root/srv
tar -xf /dev/vdb -C /root/srv
mount --move /dev /root/dev
exec switch_root /root /srv/cordon/src/tests/kernels/guest.sh
