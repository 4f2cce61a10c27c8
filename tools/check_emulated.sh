#!/usr/bin/env bash
# Runs the program on processors that QEMU emulates: each gets the best kernels that it has instructions for, and the
# logits and texts of those kernels on this processor, bit for bit. Usage: tools/check_emulated.sh [BUILD]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/packages.sh
need_packages qemu-user python3
program=${1:-build/release}/assay
[ -x "$program" ] || stop "$program: not found: build it first"
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder

# emulated PROCESSOR ARGUMENTS...: what the emulator has to say of features it lacks is no news.
emulated() {
  local processor=$1
  shift
  qemu-x86_64 -cpu "$processor" "$program" "$@" 2> >(grep -v '^qemu-x86_64: warning' >&2)
}

# text_of FILE: what a generation gave, without what was measured.
text_of() {
  python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(a["kernels"], a["dtype"], a["ids"], a["text"])' "$1"
}

prompt="The captain of the ship"

# check PROCESSOR KERNELS PRECISION: one thread, so that several processors are emulated at a time.
check() {
  local processor=$1 kernels=$2 precision=$3 here there at=$folder/$1-$3
  local ask=(demo -p "$prompt" --precision "$precision" --threads 1 --quiet)
  emulated "$processor" generate "${ask[@]}" -n 8 --json >"$at.json" ||
    stop "$processor, $precision: generate ended with $?"
  emulated "$processor" logits "${ask[@]}" -o "$at.npy" >/dev/null ||
    stop "$processor, $precision: logits ended with $?"
  # A processor that has better kernels runs these too.
  "$program" generate "${ask[@]}" -n 8 --json --isa "$kernels" >"$at-here.json"
  "$program" logits "${ask[@]}" -o "$at-here.npy" --isa "$kernels" >/dev/null
  here=$(text_of "$at-here.json") there=$(text_of "$at.json")
  [ "$here" = "$there" ] || stop "$processor, $precision: expected $here, found $there"
  cmp "$at-here.npy" "$at.npy" || stop "$processor, $precision: other logits than of the $kernels kernels here"
  echo "$processor, $precision: as here"
}

running=0
while read -r processor kernels precisions; do
  emulated "$processor" kernels --json >"$folder/kernels.json" || stop "$processor: kernels ended with $?"
  found=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["isa"])' <"$folder/kernels.json")
  [ "$found" = "$kernels" ] || stop "$processor: expected $kernels kernels, found $found"
  echo "$processor: $kernels kernels"
  for precision in $precisions; do
    if [ "$running" -ge "$(nproc)" ]; then wait -n; else running=$((running + 1)); fi
    check "$processor" "$kernels" "$precision" &
  done
done <<'PROCESSORS'
Haswell avx2 float32 bfloat16 int8-dynamic nf4
EPYC avx2 float32 nf4
qemu64 scalar float32 int8-dynamic nf4
Nehalem scalar
Skylake-Server avx2
PROCESSORS
while [ "$running" -gt 0 ]; do
  wait -n
  running=$((running - 1))
done
