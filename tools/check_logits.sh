#!/usr/bin/env bash
# Hashes the logits of all small models in every precision on all kernels that this processor has and on the emulated
# GPU, with and without the cache and in batches, into FILE; with EARLIER, a file of another build, also compares.
# Usage: tools/check_logits.sh FILE [EARLIER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/packages.sh
[ $# -ge 1 ] && [ $# -le 2 ] || stop "expected FILE [EARLIER], found $# arguments"
[ $# -lt 2 ] || [ -f "$2" ] || stop "$2: not found"
cmake --preset release >/dev/null
cmake --build --preset release --target logit_hashes >/dev/null || stop "logit_hashes does not build"
build/release/tests/logit_hashes "$1"
[ $# -lt 2 ] && exit
python3 - "$1" "$2" <<'P'
import sys
lines = [dict(line.rsplit(" ", 1) if " refused: " not in line else line.split(" refused: ", 1)
              for line in open(path).read().splitlines()) for path in sys.argv[1:]]
new, old = lines
common = new.keys() & old.keys()
unlike = sorted(name for name in common if new[name] != old[name])
for name in unlike[:20]:
    print(f"differs: {name}")
print(f"{len(common) - len(unlike)} of {len(common)} equal, {len(new.keys() - common)} only in {sys.argv[1]}, "
      f"{len(old.keys() - common)} only in {sys.argv[2]}")
sys.exit(1 if unlike or not common else 0)
P
