# Shows a pod its node's root at $1, without changing the node: the mounts are seen by this command alone.
set -e
host=$1 tty=$2 room=/mnt
shift 2
trap 'echo "the root of this node cannot be shown at $host" >&2' EXIT
mount -t tmpfs -o mode=755 room "$room"
at=$room$host
mkdir -p "$at"
mount --rbind / "$at"
umount "$at/mnt"
# What the pod's own image would have, the node has as well.
for entry in /*; do
  name=${entry##*/}
  [ -e "$room/$name" ] || ln -s "$host/$name" "$room/$name"
done
cd /
trap - EXIT
if [ "$tty" ]; then exec setsid --ctty --wait chroot "$room" "$@"; fi
exec chroot "$room" "$@"
