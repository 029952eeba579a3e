#!/bin/busybox sh
# Finds the root file system and hands over; the whole initramfs is this, busybox and the modules.
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
# Before virtio_mem is loaded: what it adds must be movable, or it could not be taken away again.
echo online_movable > /sys/devices/system/memory/auto_online_blocks
while read -r module; do
    /bin/busybox insmod "/modules/$module" || echo "initrd: $module was not loaded"
done < /modules/order
tries=0
while [ ! -b /dev/vda ] && [ "$tries" -lt 200 ]; do
    /bin/busybox usleep 50000
    tries=$((tries + 1))
done
/bin/busybox mount -t ext4 -o ro /dev/vda /root || exec /bin/busybox poweroff -f
/bin/busybox mount --move /proc /root/proc
/bin/busybox mount --move /sys /root/sys
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
