#!/usr/bin/env bash
# All that .ci/run does, and: clang, position-independent libraries, clang-tidy, ThreadSanitizer, each fuzz target for a
# minute, and the tests with each instruction set forced.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/packages.sh

.ci/run
echo "== AddressSanitizer and UndefinedBehaviorSanitizer, from end to end"
ctest --preset asan --parallel "$(nproc)" --label-regex end_to_end
echo "== an emulated machine of two NUMA nodes"
tools/check_numa.sh
echo "== report.html in a browser"
need_packages chromium chromium-driver python3-venv
[ -x build/html-venv/bin/python ] || python3 -m venv build/html-venv
build/html-venv/bin/pip install --quiet selenium axe-core-python || echo "left out: selenium and axe cannot be installed"
build/html-venv/bin/python tools/check_html.py --output build/html
need_packages clang clang-tidy
echo "== clang"
cmake --preset clang >/dev/null && cmake --build --preset clang && ctest --preset clang --parallel "$(nproc)"
echo "== position-independent libraries"
cmake --preset pic >/dev/null && cmake --build --preset pic
echo "== clang-tidy"
# Each file by its own flags, which a build of several files together does not tell.
cmake --preset clang -B build/tidy -DASSAY_UNITY=OFF >/dev/null
git ls-files 'src/*.cpp' | xargs -P "$(nproc)" -n 4 clang-tidy -p build/tidy --quiet
echo "== ThreadSanitizer"
cmake --preset tsan >/dev/null && cmake --build --preset tsan && ctest --preset tsan --parallel 1
echo "== fuzz targets"
tools/check_fuzz.sh 60
echo "== each instruction set forced"
for isa in scalar avx2 avx512; do
  build/release/assay kernels --isa $isa >/dev/null 2>&1 || { echo "$isa: not usable here, left out"; continue; }
  build/release/assay perplexity demo models/demo/texts/evaluate.txt --isa $isa --context 128 --stride 128 --quiet
done
