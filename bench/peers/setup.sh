#!/usr/bin/env bash
# Builds the environments of the programs that Assay is compared with: a virtual environment each, because their pins
# of transformers collide, and llama.cpp from source. What is there already is left alone; a peer that fails does not
# stop the others.
#
# usage: bench/peers/setup.sh [--only NAME...] [--dir DIR]
#   NAME: torch onnxruntime openvino ctranslate2 llama.cpp llama.cpp-avx2 (the same sources built for AVX2 alone,
#   which compare.py --isa avx2 runs)      DIR: default ${ASSAY_PEERS:-$HOME/.cache/assay-peers}
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tools/packages.sh"

all=(torch onnxruntime openvino ctranslate2 llama.cpp llama.cpp-avx2)
dir=${ASSAY_PEERS:-${HOME:-/root}/.cache/assay-peers}
chosen=()
while [ $# -gt 0 ]; do
  case $1 in
    --only)
      shift
      while [ $# -gt 0 ] && [[ $1 != --* ]]; do
        [[ " ${all[*]} " == *" $1 "* ]] || stop "--only: expected one of ${all[*]}, found '$1'"
        chosen+=("$1")
        shift
      done
      [ ${#chosen[@]} -gt 0 ] || stop "--only: expected one of ${all[*]}"
      ;;
    --dir)
      [ $# -ge 2 ] && [ -n "$2" ] || stop "--dir: expected a folder"
      dir=$2
      shift 2
      ;;
    -h | --help)
      sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) stop "unknown argument '$1' (--help shows what is expected)" ;;
  esac
done
[ ${#chosen[@]} -gt 0 ] || chosen=("${all[@]}")
mkdir -p "$dir/logs" && dir=$(cd "$dir" && pwd) || stop "$dir: this folder cannot be made"
export PIP_CACHE_DIR=$dir/pip-cache # the environments share the wheel of torch

# venv NAME IMPORTS PACKAGE...: an environment in which the modules can be imported.
venv() {
  local name=$1 imports=$2 home=$dir/$1
  shift 2
  if [ -x "$home/bin/python" ] && "$home/bin/python" -c "import $imports"; then return; fi
  # A link is somebody's environment, lent: nothing is installed into it.
  [ -L "$home" ] && { echo "$home is a link, and its Python lacks one of: $imports"; return 1; }
  python3 -m venv "$home" && "$home/bin/pip" install --upgrade pip && "$home/bin/pip" install "$@" &&
    "$home/bin/python" -c "import $imports"
}

setup_torch() { venv torch "torch, transformers, bitsandbytes" torch transformers accelerate tokenizers safetensors bitsandbytes; }
setup_onnxruntime() { venv onnxruntime "onnxruntime, optimum.onnxruntime" "optimum[onnxruntime]"; }
# Newer transformers than 5.0 are refused when Gemma 3 is exported.
setup_openvino() { venv openvino "openvino, optimum.intel, nncf" openvino nncf "optimum-intel[openvino]" "transformers<5.1"; }
setup_ctranslate2() { venv ctranslate2 "ctranslate2, transformers, torch" ctranslate2 transformers torch; }

# clang-19 is what llama.cpp is known to run right with (g++ 12 breaks its AMX path); else the newest clang there is.
find_clang() {
  command -v clang-19 >/dev/null || (need_packages clang-19) >&2 # in a subshell: it ends with exit where it cannot
  local version
  for version in 19 {30..20} {18..14}; do
    command -v "clang++-$version" >/dev/null && { echo "$version"; return; }
  done
  return 1
}

# build_llama_worker HOME BUILD: the worker, against the library and the JSON header of the same sources; it finds the
# library beside itself.
build_llama_worker() {
  local home=$1 worker=$root/bench/peers/worker_llama.cpp bin=$1/$2/bin
  local program=$bin/assay-llama-worker
  [ -x "$program" ] && [ "$program" -nt "$worker" ] && return
  "clang++-$(cut -d' ' -f2 "$home/compiler.txt")" -std=c++17 -O2 -Wall -Wextra -I "$home/source/include" \
    -I "$home/source/ggml/include" -I "$home/source/vendor" "$worker" -o "$program" -L "$bin" \
    -lllama -lggml -lggml-cpu -lggml-base -Wl,-rpath,'$ORIGIN' -pthread
}

# build_llama BUILD FLAG...: a build folder of llama.cpp. The converter runs in the torch environment; gguf-py is the
# checkout's own. llama-bench is for checks by hand.
build_llama() {
  local build=$1 home=$dir/llama.cpp version sources
  local targets=(llama llama-bench llama-quantize)
  shift
  if [ -e "$home/$build/bin/libllama.so" ] && "$home/$build/bin/llama-bench" --help &&
    [ -x "$home/$build/bin/llama-quantize" ]; then
    build_llama_worker "$home" "$build"
    return
  fi
  mkdir -p "$home" && cd "$home" || return 1
  version=$(find_clang) || { echo "no clang was found, and clang-19 could not be installed"; return 1; }
  echo "clang $version" >compiler.txt
  if [ ! -e source/CMakeLists.txt ]; then
    python3 -m venv pip && pip/bin/pip install --upgrade pip || return 1
    pip/bin/pip download --no-binary llama-cpp-python --no-deps -d sdist llama-cpp-python || return 1
    sources=$(ls -t sdist/*.tar.gz | head -1) && rm -rf unpacked && mkdir unpacked &&
      tar -xzf "$sources" -C unpacked && ln -sfn "$(echo unpacked/*/vendor/llama.cpp)" source || return 1
  fi
  rm -f source/.git # it names a repository that is not there, and ninja would configure for ever
  cmake -S source/ -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="clang-$version" \
    -DCMAKE_CXX_COMPILER="clang++-$version" "$@" -DGGML_OPENMP=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_UI=OFF && cmake --build "$build" --target "${targets[@]}" &&
    build_llama_worker "$home" "$build"
}
setup_llama.cpp() { build_llama build -DGGML_NATIVE=ON; }
setup_llama.cpp-avx2() {
  local vnni=OFF
  grep -qw avx_vnni /proc/cpuinfo && vnni=ON # Assay's AVX2 kernels take it too where it is there
  build_llama build-avx2 -DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON \
    -DGGML_AVX_VNNI=$vnni -DGGML_AVX512=OFF
}

failed=0
for name in "${chosen[@]}"; do
  log=$dir/logs/$name.log
  echo "== $name"
  if ("setup_$name") >"$log" 2>&1; then
    case $name in
      llama.cpp*) echo "ready: $dir/llama.cpp (built with $(cat "$dir/llama.cpp/compiler.txt"))" ;;
      *) echo "ready: $dir/$name ($("$dir/$name/bin/pip" list 2>/dev/null |
        grep -iE '^(torch|transformers|onnxruntime|openvino|optimum[a-z-]*|nncf|ctranslate2|bitsandbytes) ' |
        tr -s ' ' | paste -sd, | sed 's/,/, /g'))" ;;
    esac
  else
    failed=1
    echo "failed: the log is $log; its last lines:"
    tail -n 5 "$log"
  fi
done
exit "$failed"
