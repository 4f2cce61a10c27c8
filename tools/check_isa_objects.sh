#!/usr/bin/env bash
# An object compiled for one instruction set may export nothing that another file could be linked with instead: the
# linker keeps one copy of a weak symbol, perhaps the one this machine cannot run.
# usage: tools/check_isa_objects.sh BUILD_FOLDER
set -euo pipefail
layers=$1/src/CMakeFiles
found=0
for object in "$layers"/assay_backend.dir/assay/backend/cpu/kernels/{avx,amx}*/*.o \
  "$layers"/assay_machine.dir/assay/machine/probes/{avx2,avx512,amx}.cpp.o; do
  [ -e "$object" ] || continue
  found=$((found + 1))
  if weak=$(nm -C "$object" | grep -E ' [WVu] '); then
    echo "error: $object has weak symbols: $weak" >&2
    exit 1
  fi
  exported=$(nm -C "$object" | grep -cE ' T ')
  [ "$exported" -eq 1 ] || { echo "error: $object exports $exported functions, expected one" >&2; exit 1; }
done
[ $found -ge 5 ] || { echo "error: $found objects in $1, expected those of the kernels and the probes" >&2; exit 1; }
echo "instruction-set objects: clean"
