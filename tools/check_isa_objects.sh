#!/usr/bin/env bash
# An object compiled for one instruction set may export nothing that another file could be linked with instead: the
# linker keeps one copy of a weak symbol, perhaps the one this machine cannot run.
# usage: tools/check_isa_objects.sh BUILD_FOLDER
set -euo pipefail
found=0
for object in "$1"/src/CMakeFiles/assay_backend.dir/assay/backend/cpu/{avx,amx}*/*.o; do
  found=1
  if weak=$(nm -C "$object" | grep -E ' [WVu] '); then
    echo "error: $object has weak symbols: $weak" >&2
    exit 1
  fi
  exported=$(nm -C "$object" | grep -cE ' T ')
  [ "$exported" -eq 1 ] || { echo "error: $object exports $exported functions, expected its fill() alone" >&2; exit 1; }
done
[ $found -eq 1 ] || { echo "error: no objects in $1" >&2; exit 1; }
echo "instruction-set objects: clean"
