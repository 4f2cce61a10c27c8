# Sourced by the scripts: installs the Debian packages that are missing, or says in one sentence why it cannot.

stop() {
  echo "error: $*" >&2
  exit 1
}

# need_packages PACKAGE...
need_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  command -v apt-get >/dev/null || stop "these packages are missing and there is no apt-get to install them: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || stop "these packages are missing and installing them needs root or sudo: ${missing[*]}"
    as_root=(sudo)
  fi
  echo "== installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq || stop "apt-get update failed: is a Debian mirror configured and reachable?"
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    stop "apt-get could not install: ${missing[*]}"
}

# need_disk MEGABYTES: free space where the build goes.
need_disk() {
  local free
  free=$(df -Pm . | awk 'NR == 2 {print $4}')
  [ "$free" -ge "$1" ] || stop "the build needs $1 MB of free disk in $PWD, there are $free MB"
}

build_packages=(g++ cmake ninja-build libfmt-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libutf8proc-dev libssl-dev libonig-dev)
plot_packages=(librsvg2-2 fonts-dejavu-core)
test_packages=(libgtest-dev python3)
