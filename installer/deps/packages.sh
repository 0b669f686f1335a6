#!/usr/bin/env bash
# Installs the Debian packages that building and testing need and that are missing. Quick when all are there.
# usage: installer/deps/packages.sh [build] [demo] [test] [windows] [traces]     (default: all)
# build: the programs; demo: what `make demo` and `make check` need beside it; test: every test; windows: the cross build and
# its tests; traces: `make traces`
set -euo pipefail

build=(cmake ninja-build make gcc libc6-dev pkg-config ccache protobuf-c-compiler libprotobuf-c-dev libcurl4-openssl-dev librdkafka-dev
       libssl-dev libzstd-dev libevent-dev libsqlite3-dev libxxhash-dev libyaml-dev libexpat1-dev zlib1g-dev nodejs npm)
demo=(libcmocka-dev python3 zstd)
test=("${demo[@]}" clang clang-format clang-tidy libclang-rt-14-dev lld llvm sqlite3 git curl openssl
      iproute2 procps shellcheck valgrind chromium dpkg-dev prometheus kcat libarchive-tools swtpm tpm2-openssl softhsm2)
# what this Debian may lack: a test that needs it is skipped and prints that
optional=(pkcs11-provider)
traces=(python3 libarchive-tools)
windows=(gcc-mingw-w64-x86-64 mingw-w64-tools dpkg-dev patch perl xz-utils wine wine64 wixl msitools)

wanted=()
for group in "${@:-all}"; do
    case $group in
    build) wanted+=("${build[@]}") ;;
    demo) wanted+=("${demo[@]}") ;;
    test) wanted+=("${test[@]}" "${optional[@]}") ;;
    windows) wanted+=("${windows[@]}") ;;
    traces) wanted+=("${traces[@]}") ;;
    all) wanted+=("${build[@]}" "${test[@]}" "${optional[@]}" "${windows[@]}") ;;
    *) echo "packages.sh: unknown group '$group' (build, demo, test, windows, traces)" >&2; exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null; then
    echo "packages.sh: this is no Debian; the packages meant are: ${wanted[*]}" >&2
    exit 0
fi
# one query for all: "install ok installed NAME" a line for those that are there
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p')
missing=()
for package in "${wanted[@]}"; do
    # Node.js of another origin brings its own npm, and Debian's conflicts with it
    case $package in nodejs | npm) command -v node >/dev/null && command -v npm >/dev/null && continue ;; esac
    grep -qxF -- "$package" <<<"$installed" && continue
    case " ${optional[*]} " in *" $package "*) apt-cache show "$package" >/dev/null 2>&1 || continue ;; esac
    missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "packages.sh: these packages are missing; as root, run:" >&2
    echo "    apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi
echo "installing ${#missing[@]} Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for attempt in 1 2 3; do
    if apt-get -q update >"$log" 2>&1 &&
        apt-get -q -y -o Dpkg::Options::=--force-confold install --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
        exit 0
    fi
    echo "attempt $attempt failed:" >&2
    tail -n 5 "$log" >&2
    sleep $((attempt * 5))
done
echo "packages.sh: the packages could not be installed" >&2
exit 1
