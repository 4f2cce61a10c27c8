#!/usr/bin/env bash
# A roofline is valid only if its loop does nothing else: no loop of a probe may store a vector to the stack or reload it.
# usage: tools/check_probe_spills.sh BUILD_FOLDER
set -euo pipefail
# A loop is what lies between a jump and an earlier address of the same function that it goes to. Products read no
# memory at all, so there a reference by %rbp is the stack's too.
for object in "$1"/src/CMakeFiles/assay_machine.dir/assay/machine/probes/{avx2,avx512,amx}.cpp.o; do
  objdump -d --no-show-raw-insn "$object" | awk -v object="$object" '
    /^[0-9a-f]+ <.*>:$/ { count = 0; name = $2 }
    /^ +[0-9a-f]+:/ {
      address = $1; sub(":", "", address)
      at[address] = count; line[count++] = $0
      if ($2 !~ /^j/ || !($3 in at) || !(at[$3] < count)) next
      is_product = 0; spills = ""; pointed = ""
      for (i = at[$3]; i < count; ++i) {
        if (line[i] ~ /vfmadd|vpdpbusd|vdpbf16ps|vpmaddubsw|tdpb/) is_product = 1
        if (line[i] ~ /\t *v[^\t]*\(%rsp/) spills = spills "\n" line[i]
        if (line[i] ~ /\t *v[^\t]*\(%rbp/) pointed = pointed "\n" line[i]
      }
      if (is_product) spills = spills pointed
      products += is_product
      if (spills != "") { print "error: " object ": a loop of " name " uses the stack:" spills > "/dev/stderr"; bad = 1 }
    }
    /^[0-9a-f]+ <.*>:$/ { delete at }
    END {
      if (products < 2) { print "error: " object ": " products + 0 " product loops found" > "/dev/stderr"; bad = 1 }
      exit bad
    }'
done
echo "probe loops: no spills"
