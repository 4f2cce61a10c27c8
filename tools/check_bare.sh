#!/usr/bin/env bash
# Runs README's two commands on a bare Debian 12: a fresh clone of what is committed here, in a chroot that debootstrap
# makes. Needs root and a Debian mirror. Says how long each took, or what failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/packages.sh
[ "$(id -u)" -eq 0 ] || stop "check_bare.sh needs root, for debootstrap and chroot"
need_packages debootstrap
folder=$(mktemp -d)
root=$folder/root
clean_up() {
  umount "$root/proc" "$root/dev" 2>/dev/null || true
  # A mount that is still there would be emptied with the folder.
  mountpoint -q "$root/dev" || mountpoint -q "$root/proc" || rm -rf "$folder"
}
trap clean_up EXIT

mirror=$(apt-cache policy | grep -oE 'https?://[^ ]+' | grep -v -E 'node|security|google' | sort -u | head -n 1)
[ -n "$mirror" ] || stop "no Debian mirror is configured (apt-cache policy names none)"
debootstrap --variant=minbase bookworm "$root" "$mirror" >"$folder/log" 2>&1 ||
  stop "debootstrap failed: $(tail -n 1 "$folder/log")"
# What this machine needs to reach the mirror.
cp /etc/apt/apt.conf.d/99* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
cp /etc/resolv.conf "$root/etc/"
mkdir -p "$root/etc/ssl/certs"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" 2>/dev/null || true
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
git clone -q . "$root/root/assay"

# in_root COMMAND: with an environment as a fresh login has it.
in_root() {
  chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 sh -c "cd /root/assay && $1" </dev/null
}

begin=$SECONDS
in_root ./demo.sh >"$folder/demo" 2>&1 || stop "demo.sh failed: $(tail -n 3 "$folder/demo")"
middle=$SECONDS
in_root ./test.sh >"$folder/test" 2>&1 || {
  grep -aE -A8 ': Failure$' "$folder/test" | head -n 60 >&2 || true  # what the tests that failed say
  stop "test.sh failed: $(grep -aE 'Failed|Timeout|\*\*\*' "$folder/test" | tail -n 8) $(tail -n 1 "$folder/test")"
}
echo "demo.sh $((middle - begin)) s, test.sh $((SECONDS - middle)) s: $(grep -a 'tests passed' "$folder/test")"
