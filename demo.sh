#!/usr/bin/env bash
# Installs what is missing, builds Assay, and runs its main job on the model that ships with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. tools/packages.sh

command -v dpkg-query >/dev/null || stop "this script knows Debian 12 only; elsewhere see README.md for what to install"
need_packages "${build_packages[@]}" "${plot_packages[@]}"
[ -x build/release/assay ] || need_disk 700
echo "== building build/release/assay (the first time takes a few minutes)"
cmake --preset release >build.log 2>&1 && cmake --build --preset release --target assay >>build.log 2>&1 || {
  tail -n 20 build.log >&2
  stop "the build failed; the whole log is in build.log"
}
echo "== build/release/assay run demo -o results/demo"
build/release/assay run demo -o results/demo "$@"
