#!/usr/bin/env bash
# Runs the program on a machine that QEMU emulates whole: two NUMA nodes, two cores each, two threads a core, under
# Debian's kernel. Cores, nodes and a quota are then what a kernel tells, and pages lie where it puts them; what the
# program generates there must be what it generates here. Usage: tools/check_numa.sh [BUILD]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/packages.sh
need_packages qemu-system-x86 busybox-static cpio
build=$(realpath "${1:-build/release}")
for file in assay tests/assay_tests; do [ -x "$build/$file" ] || stop "$build/$file: not found: build it first"; done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
image=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends:/ {print $2; exit}')
(cd "$folder" && apt-get download -qq "$image" 2>/dev/null && dpkg-deb -x linux-image-*.deb kernel) ||
  stop "apt-get could not download a kernel"

# A file system with the program, its tests and the model that ships, at the paths they have here.
root=$folder/root
mkdir -p "$root"/{bin,dev,proc,sys,tmp}
cp /bin/busybox "$root/bin/"
cp --parents -r "$build"/{assay,tests/assay_tests} "$PWD/models" "$root/"
ldd "$build"/{assay,tests/assay_tests} | awk '/=> \// {print $3} /^\t\/lib/ {print $1}' | sort -u |
  while read -r library; do cp --parents -L "$library" "$root/"; done
generate="$build/assay generate demo -n 8 --tune off --quiet --isa avx2 --ids 628,2865"
cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t devtmpfs none /dev; mount -t proc none /proc; mount -t sysfs none /sys
mount -t cgroup2 none /sys/fs/cgroup
cd "$PWD"
# said NAME COMMAND...: what a command says, each line behind its name.
said() {
  name=\$1; shift
  "\$@" >/tmp/said 2>&1
  echo "\$name ended with \$?" >>/tmp/said
  sed "s/^/\$name: /" /tmp/said
}
echo
said machine "$build/assay" machine --largest 1 --tune off
for precision in float32 int8-dynamic nf4; do
  for i in 1 2 3 4 5 6; do said \$precision $generate --precision \$precision; done
done
said tests "$build/tests/assay_tests" --gtest_color=no \
  --gtest_filter='Topology*:Placement*:Regions*:ThreadPool*:WeightsAhead*'
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
said near taskset 0xf "$build/assay" machine --largest 1 --tune off
mkdir /sys/fs/cgroup/some; echo "200000 100000" >/sys/fs/cgroup/some/cpu.max; echo \$\$ >/sys/fs/cgroup/some/cgroup.procs
said quota "$build/assay" machine --largest 1 --tune off
said quota $generate --json
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet) >"$folder/initrd"

timeout 600 qemu-system-x86_64 -accel tcg,thread=multi -cpu Haswell-noTSX -m 2G -smp 8,sockets=2,cores=2,threads=2 \
  -object memory-backend-ram,id=m0,size=1G -object memory-backend-ram,id=m1,size=1G \
  -numa node,nodeid=0,cpus=0-3,memdev=m0 -numa node,nodeid=1,cpus=4-7,memdev=m1 \
  -kernel "$folder"/kernel/boot/vmlinuz-* -initrd "$folder/initrd" -append "console=ttyS0 quiet panic=-1" \
  -nographic -no-reboot 2> >(grep -v 'TCG doesn.t support requested feature' >&2) |
  sed -u 's/\r//' >"$folder/said" || stop "the emulated machine ended with $?"

# expect COUNT TEXT: as many lines of it.
expect() {
  local found
  found=$(grep -c -x -F -e "$2" "$folder/said" || true)
  [ "$found" -eq "$1" ] && return
  cat "$folder/said" >&2
  stop "expected $1 lines '$2', found $found"
}
expect 1 "machine: processors              8 online, 8 allowed"
expect 1 "machine: cores                   4, some with two threads or more: one of each is used"
expect 1 "machine: NUMA nodes              2"
expect 1 "near: processors              8 online, 4 allowed"
expect 1 "near: cores                   2, some with two threads or more: one of each is used"
expect 1 "quota: CPU quota               2.00 processors"
expect 1 'quota:  "threads": 2,'
for precision in float32 int8-dynamic nf4; do
  expect 6 "$precision: $($generate --precision "$precision" | head -n 1)"
  expect 6 "$precision: $precision ended with 0"
done
expect 1 "tests: tests ended with 0"
grep -q 'tests: \[  SKIPPED' "$folder/said" && stop "$(grep 'tests: \[  SKIPPED' "$folder/said")"
echo "two nodes, four cores, eight processors: threads and pages lie as they should, texts are those from here"
