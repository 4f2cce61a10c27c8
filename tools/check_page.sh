#!/usr/bin/env bash
# Opens report.html of a short run in headless Chromium: its script has run and says nothing in the console. What needs
# a driver (sorting, filters, axe, screenshots) is in check_html.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build/release/assay tradeoff demo --precision float32,nf4 -n 8 --processes 3 -o "$folder/run" --quiet --no-progress >/dev/null
timeout 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$folder/profile" --enable-logging=stderr \
  --virtual-time-budget=2000 --dump-dom "file://$folder/run/report.html" >"$folder/page" 2>"$folder/log" || {
  tail -n 5 "$folder/log" >&2
  echo "chromium did not open report.html" >&2
  exit 1
}
if grep CONSOLE "$folder/log" >&2; then
  echo "report.html: expected no message in the console" >&2
  exit 1
fi
# Columns are sorted by buttons, which the script adds.
grep -q '<button' "$folder/page" || {
  echo "report.html: expected columns with buttons, found none: the script did not run" >&2
  exit 1
}
echo "report.html: its script ran, without a message"
