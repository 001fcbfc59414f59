# Shows a pod the working folder, a simulated node, as that node's root at $1. Its files are the node's own and can be
# written; programs are this machine's, and cannot. All of this is seen by this command alone.
set -e
host=$1 tty=$2 room=/mnt
shift 2
trap 'echo "the root of this node cannot be shown at $host" >&2' EXIT
mount -t tmpfs -o mode=755 room "$room"
at=$room$host
mkdir -p "$at"
for entry in * .[!.]*; do
  if [ -d "$entry" ] && [ ! -L "$entry" ]; then
    mkdir "$at/$entry"
    mount --rbind "$entry" "$at/$entry"
  elif [ -e "$entry" ] || [ -L "$entry" ]; then
    cp -P "$entry" "$at/$entry"
  fi
done
if [ -d usr ]; then
  mount -t overlay -o lowerdir=usr:/usr programs "$at/usr"
fi
for entry in usr bin sbin lib lib32 lib64 libx32; do
  if [ -e "$at/$entry" ] || [ -L "$at/$entry" ]; then
    continue
  elif [ -L "/$entry" ]; then
    cp -P "/$entry" "$at/$entry"
  elif [ -d "/$entry" ]; then
    mkdir "$at/$entry"
    mount --rbind "/$entry" "$at/$entry"
    mount -o remount,bind,ro "$at/$entry"
  fi
done
mkdir -p "$at/proc" "$at/dev" "$at/tmp" "$at/run" "$at/var" "$at/root"
# Where this machine is itself a container, it may keep its own for itself.
mount -t proc proc "$at/proc" 2>/dev/null || true
# A simulated node has booted with kernel arguments of its own.
if [ -f proc/cmdline ]; then mount --bind proc/cmdline "$at/proc/cmdline" 2>/dev/null || true; fi
mount -t tmpfs -o mode=755 dev "$at/dev"
for device in null zero full random urandom tty; do
  : > "$at/dev/$device"
  mount --bind "/dev/$device" "$at/dev/$device"
done
ln -s /proc/self/fd "$at/dev/fd"
mkdir "$at/dev/pts"
mount --rbind /dev/pts "$at/dev/pts" 2>/dev/null || true
for entry in "$at"/*; do
  name=${entry##*/}
  [ -e "$room/$name" ] || ln -s "$host/$name" "$room/$name"
done
cd /
trap - EXIT
if [ "$tty" ]; then exec setsid --ctty --wait chroot "$room" "$@"; fi
exec chroot "$room" "$@"
