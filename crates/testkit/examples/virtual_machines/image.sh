#!/bin/bash
# Makes a disk image that boots by GRUB and runs Ignition at its first boot.
#
#   image.sh FOLDER IGNITION FIRST_BOOT     writes FOLDER/base.qcow2
set -eu
cd "$1"
ignition=$2
first_boot=$3
. /etc/os-release

# The mirror that this machine's own packages come from.
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)
rm -rf root
debootstrap --variant=minbase --include=systemd-sysv,dbus,udev,kmod,iproute2,e2fsprogs,zstd "$VERSION_CODENAME" root "$mirror"

install -m 755 "$ignition" root/usr/sbin/ignition
install -d root/etc/initramfs-tools/{conf.d,scripts/local-bottom}
install -m 755 "$first_boot" root/etc/initramfs-tools/scripts/local-bottom/first-boot
echo 'MODULES=list' > root/etc/initramfs-tools/conf.d/machine
printf '%s\n' virtio_pci virtio_blk virtio_net virtio_rng qemu_fw_cfg > root/etc/initramfs-tools/modules

# Packages must not start services in the chroot.
printf '#!/bin/sh\nexit 101\n' > root/usr/sbin/policy-rc.d
chmod 755 root/usr/sbin/policy-rc.d
chroot root apt-get update
DEBIAN_FRONTEND=noninteractive chroot root apt-get install -y --no-install-recommends \
    initramfs-tools busybox linux-image-cloud-amd64 grub2-common grub-pc-bin
rm root/usr/sbin/policy-rc.d
rm -rf root/var/cache/apt root/var/lib/apt/lists root/usr/share/{doc,man,locale}

# With an id of this kind systemd takes the boot for the first, and enables units as presets say: ours, and Ignition's.
echo uninitialized > root/etc/machine-id
touch root/etc/first-boot
printf 'enable systemd-networkd.service\n' > root/usr/lib/systemd/system-preset/50-image.preset
printf 'disable *\n' > root/usr/lib/systemd/system-preset/99-image.preset
ln -sf /dev/null root/etc/systemd/system/systemd-firstboot.service
echo '/dev/vda1 / ext4 rw,noatime 0 1' > root/etc/fstab
cat > root/etc/systemd/network/20-machine.network <<'NETWORK'
[Match]
Name=eth0
[Network]
DHCP=ipv4
IPv6AcceptRA=no
[DHCPv4]
# By the same name as in the initramfs, or the machine would get a second address.
ClientIdentifier=mac
NETWORK

# What update-grub makes GRUB's configuration from.
cat > root/etc/default/grub <<'GRUB'
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_RECORDFAIL_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="console=ttyS0 net.ifnames=0"
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND="serial --speed=115200"
GRUB_DISABLE_OS_PROBER=true
GRUB_DISABLE_LINUX_UUID=true
GRUB
install -d root/etc/default/grub.d root/boot/grub/i386-pc
cp root/usr/lib/grub/i386-pc/*.mod root/usr/lib/grub/i386-pc/*.lst root/boot/grub/i386-pc/

# One partition, a boot loader in the gap before it, and its configuration until update-grub makes one.
kernel=$(basename root/boot/vmlinuz-*)
cat > root/boot/grub/grub.cfg <<GRUB
serial --speed=115200
terminal_output serial
set timeout=0
menuentry Debian {
	linux /boot/$kernel root=/dev/vda1 ro console=ttyS0 net.ifnames=0 quiet
	initrd /boot/${kernel/vmlinuz/initrd.img}
}
GRUB
size=$((2 * 1024 * 1024 * 1024))
rm -f base.raw
truncate -s "$size" base.raw
echo 'start=2048, type=83, bootable' | sfdisk -q base.raw
mke2fs -q -t ext4 -b 4096 -m 0 -O ^metadata_csum_seed,^orphan_file -E offset=1048576 -d root base.raw $((size / 4096 - 256))
grub-mkimage -O i386-pc -o core.img -p '(hd0,msdos1)/boot/grub' biosdisk part_msdos ext2 linux boot normal \
    configfile search search_fs_uuid search_fs_file search_label serial terminal echo test gzio ls
dd if=/usr/lib/grub/i386-pc/boot.img of=base.raw bs=440 count=1 conv=notrunc status=none
dd if=core.img of=base.raw bs=512 seek=1 conv=notrunc status=none
qemu-img convert -O qcow2 base.raw base.qcow2.part
mv base.qcow2.part base.qcow2
rm -rf base.raw root
