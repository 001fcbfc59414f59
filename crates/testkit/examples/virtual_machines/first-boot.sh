#!/bin/sh
# In the initramfs, once the root is mounted: runs Ignition on it at the first boot, and switches off if that fails.
[ "$1" = prereqs ] && exit 0
[ -e "$rootmnt/etc/first-boot" ] || exit 0

mount -o remount,rw "$rootmnt"
modprobe qemu_fw_cfg
modprobe virtio_net
until [ -e /sys/class/net/eth0 ]; do sleep 1; done
ip link set eth0 up
ipconfig -t 120 -c dhcp -d eth0

# Ignition calls programs that the initramfs lacks, so it runs in the new root.
for folder in proc sys dev run; do mount -o bind "/$folder" "$rootmnt/$folder"; done
for stage in fetch-offline fetch kargs disks mount files umount; do
    if ! chroot "$rootmnt" /usr/sbin/ignition --root=/ --platform=qemu --stage="$stage" --log-to-stdout; then
        echo "first boot: Ignition failed at $stage"
        sync
        poweroff -f
    fi
done
for folder in run dev sys proc; do umount "$rootmnt/$folder"; done
rm "$rootmnt/etc/first-boot"
sync
