#!/usr/bin/env bash
# Installs what is missing, builds Assay with its tests, and runs every test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. tools/packages.sh

command -v dpkg-query >/dev/null || stop "this script knows Debian 12 only; elsewhere see README.md for what to install"
need_packages "${build_packages[@]}" "${test_packages[@]}"
[ -x build/release/tests/assay_tests ] || need_disk 1200
echo "== building build/release with the tests"
cmake --preset release >build.log 2>&1 && cmake --build --preset release --target assay_tests >>build.log 2>&1 || {
  tail -n 20 build.log >&2
  stop "the build failed; the whole log is in build.log"
}
[ -x build/release/tests/assay_tests ] || stop "the tests were not built: is libgtest-dev installed?"
echo "== running the tests"
ctest --preset release --parallel "$(nproc)" --progress "$@"
