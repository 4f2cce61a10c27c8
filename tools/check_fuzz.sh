#!/usr/bin/env bash
# Runs the fuzz targets (docs/fuzzing.md), one after another: tools/check_fuzz.sh [SECONDS [TARGET...]]
# SECONDS is the time of each [60]; TARGET is a name such as gguf [all]. With the variable ASSAY_FUZZ_RUNS each ends after
# so many executions instead. Inputs that reach new edges are kept in build/fuzz/corpus/, and those that
# break a target in build/fuzz/artifacts/. The table at the end is Markdown.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/packages.sh

seconds=${1:-60}
[[ $seconds =~ ^[0-9]+$ ]] || stop "SECONDS: expected a whole number, found '$seconds'"
shift $(($# > 0 ? 1 : 0))
need_packages "${build_packages[@]}" clang python3
cmake --preset fuzz >build-fuzz.log 2>&1 && cmake --build --preset fuzz >>build-fuzz.log 2>&1 || {
  tail -n 20 build-fuzz.log >&2
  stop "the build of the fuzz targets failed"
}
build=build/fuzz
python3 tools/make_fuzz_corpus.py $build $build/seeds

all=() targets=()
for source in tests/fuzz/*_fuzz.cpp; do all+=("$(basename "$source" _fuzz.cpp)"); done
[ $# -gt 0 ] && targets=("$@") || targets=("${all[@]}")

# Long inputs cost executions and find nothing that short ones of the same form do not.
longest() {
  case $1 in
    gguf) echo 26000 ;;
    compare) echo 26000 ;;
    results | checkpoint) echo 13000 ;;
    tokenizer_json | tokenizer_model | journal) echo 8192 ;;
    *) echo 4096 ;;
  esac
}

export ASSAY_FUZZ_MODEL=$PWD/tests/fixtures/models/llama_minimal
export ASAN_OPTIONS=detect_stack_use_after_return=0:allocator_may_return_null=0
export UBSAN_OPTIONS=print_stacktrace=1
table="| target | executions | edges | executions/s | corpus |"$'\n'"|---|---|---|---|---|"
broken=()
for target in "${targets[@]}"; do
  program=$build/tests/fuzz/${target}_fuzz
  [ -x "$program" ] || stop "no fuzz target is called '$target': expected one of ${all[*]}"
  corpus=$build/corpus/$target artifacts=$build/artifacts/$target log=$build/$target.log
  mkdir -p "$corpus" "$artifacts"
  echo "== $target"
  limit=(-max_total_time="$seconds")
  [ -n "${ASSAY_FUZZ_RUNS:-}" ] && limit=(-runs="$ASSAY_FUZZ_RUNS")
  "$program" "${limit[@]}" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=256 -max_len="$(longest "$target")" \
    -dict="$build/seeds/${target}_fuzz.dict" -artifact_prefix="$artifacts/" -print_final_stats=1 \
    "$corpus" "$build/seeds/${target}_fuzz" >"$log" 2>&1 || broken+=("$target")
  if [[ " ${broken[*]} " == *" $target "* ]]; then
    grep -E 'FINDING|ERROR: |runtime error|SUMMARY|terminate|what\(\)|Test unit written' "$log" | head -n 8 || tail -n 20 "$log"
  fi
  last=$(grep -E '^#[0-9]+.* cov: ' "$log" | tail -n 1 || true)
  of_last() { sed -nE "s|.* $1: ([0-9]+).*|\1|p" <<<"$last"; }
  of_stats() { sed -nE "s|^stat::$1: +([0-9]+)|\1|p" "$log"; }
  table+=$'\n'"| $target | $(of_stats number_of_executed_units) | $(of_last cov) | $(of_stats average_exec_per_sec) | $(of_last corp) |"
done
echo "$table"
if [ ${#broken[@]} -gt 0 ]; then
  echo "Inputs that break a target (run the target with the file as its only argument):" >&2
  for target in "${broken[@]}"; do ls -1t "$build/artifacts/$target/"* 2>/dev/null | head -n 1 >&2; done
  stop "broken: ${broken[*]}; logs are $build/TARGET.log"
fi
