#!/usr/bin/env bash
# Builds the libraries that etwagent.exe links, static, with mingw-w64, from Debian's own source packages:
# zstd, protobuf-c, OpenSSL, curl, libyaml, expat, cmocka (for the tests), and the header xxhash.h.
# They go to a cache outside the tree: $EA_DEPS_CACHE, or ~/.cache/etwagent/windows-x64. A second run is instant; a change
# of this script or of the compiler builds anew. Nothing outside the cache is changed, so it needs no root.
# usage: installer/deps/build-windows-deps.sh        (about four minutes on two cores)
set -euo pipefail

host=x86_64-w64-mingw32
cache=${EA_DEPS_CACHE:-$HOME/.cache/etwagent/windows-x64}
self=$(readlink -f "${BASH_SOURCE[0]}")
jobs=${EA_JOBS:-$(nproc)}

key=$({ sha256sum <"$self"; "$host-gcc" -dumpfullversion; } | sha256sum | cut -c1-32)
is_current() { [ "$(cat "$cache/stamp" 2>/dev/null)" = "$key" ]; }
if is_current; then
    exit 0
fi
mkdir -p "$(dirname "$cache")"
exec 9>"$cache.lock"
flock 9 # another run may be at it: wait, and look again
if is_current; then
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$work/src" "$work/log" "$prefix/include" "$prefix/lib/pkgconfig"

# Sources come from where this machine's apt takes its packages; only the main suite of Debian 12 is sure to have them.
# The lists are private to this run, so that the machine's own apt configuration stays as it is.
debian_uri() {
    local file uri
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] || continue
        uri=$(awk -v RS= '/(^|\n)Types:[^\n]*deb/ && /(^|\n)Suites:[^\n]*bookworm([ \n]|$)/ && /(^|\n)Components:[^\n]*main/' "$file" |
            sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' | grep -v security | head -n 1)
        [ -n "$uri" ] && { echo "$uri"; return; }
    done
    sed -nE 's/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+)[[:space:]]+bookworm[[:space:]].*/\2/p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | head -n 1
}
uri=$(debian_uri)
if [ -z "$uri" ]; then
    echo "build-windows-deps.sh: no Debian 12 (bookworm) main suite in this machine's apt sources" >&2
    exit 1
fi
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri bookworm main" >"$work/apt/sources.list"
apt=(apt-get -q -o "Dir::Etc::SourceList=$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
     -o "Dir::State::Lists=$work/apt/lists" -o "Dir::Cache=$work/apt" -o APT::Sandbox::User=)

retry() {
    local attempt
    for attempt in 1 2 3; do
        "$@" && return 0
        echo "attempt $attempt failed: ${1##*/}" >&2
        sleep $((attempt * 5))
    done
    return 1
}
quiet_apt() { "${apt[@]}" "$@" >"$work/log/apt" 2>&1 || { tail -n 5 "$work/log/apt" >&2; return 1; }; }

echo "windows libraries: fetching sources"
retry quiet_apt update
cd "$work/src"
packages=(libzstd protobuf-c openssl curl libyaml expat cmocka xxhash)
retry quiet_apt source --download-only "${packages[@]}"
for package in "${packages[@]}"; do
    dsc=$(find . -maxdepth 1 -name "${package}_*.dsc" | head -n 1)
    dpkg-source --no-check -x "$dsc" "$package" >"$work/log/unpack" 2>&1 || { tail -n 20 "$work/log/unpack" >&2; exit 1; }
    echo "$package $(basename "$dsc" .dsc | cut -d_ -f2-)" >>"$prefix/versions.txt"
    mkdir -p "$prefix/licenses"
    cp "$package/debian/copyright" "$prefix/licenses/$package"
done

# The libraries' bytes depend on the sources and the compiler alone (installer/release/reproducible.sh --libraries): no time and no
# folder of this run gets into them. OpenSSL and curl are compiled by relative paths; OpenSSL also keeps its compiler's options.
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l openssl/debian/changelog -STimestamp)
export SOURCE_DATE_EPOCH
file_names="-ffile-prefix-map=$work/src="

# step NAME: runs the commands on standard input in a bash of its own (a failing command ends it, which set -e does not do
# inside a function whose result is tested), prints the time, and on failure the end of its log.
step() {
    local name=$1 start=$SECONDS
    if ! env host="$host" prefix="$prefix" jobs="$jobs" file_names="$file_names" bash -euo pipefail -s >"$work/log/$name" 2>&1; then
        echo "build-windows-deps.sh: $name failed:" >&2
        tail -n 40 "$work/log/$name" >&2
        exit 1
    fi
    echo "windows libraries: $(grep "^$name " "$prefix/versions.txt") built in $((SECONDS - start)) s"
}

step xxhash <<'STEP'
cp xxhash/xxhash.h "$prefix/include/"
STEP

step libzstd <<'STEP'
make -C libzstd/lib -j"$jobs" CC="$host-gcc" AR="$host-ar" RANLIB="$host-ranlib" TARGET_SYSTEM=Windows OS=Windows_NT CFLAGS=-O2 libzstd.a
cp libzstd/lib/libzstd.a "$prefix/lib/"
cp libzstd/lib/zstd.h libzstd/lib/zstd_errors.h libzstd/lib/zdict.h "$prefix/include/"
STEP

step protobuf-c <<'STEP'
version=$(sed -n 's/^AC_INIT(\[protobuf-c\],[[:space:]]*\[\([0-9.]*\)\].*/\1/p' protobuf-c/configure.ac | head -n 1)
if [ -z "$version" ]; then version=$(sed -n 's/^#define PROTOBUF_C_VERSION[[:space:]]*"\(.*\)"/\1/p' protobuf-c/protobuf-c/protobuf-c.h); fi
"$host-gcc" -O2 -DPACKAGE_VERSION="\"$version\"" -Iprotobuf-c -c protobuf-c/protobuf-c/protobuf-c.c -o protobuf-c.o
"$host-ar" rcs "$prefix/lib/libprotobuf-c.a" protobuf-c.o
mkdir -p "$prefix/include/protobuf-c"
cp protobuf-c/protobuf-c/protobuf-c.h "$prefix/include/protobuf-c/"
STEP

step libyaml <<'STEP'
cmake -G Ninja -S libyaml -B libyaml-build -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER="$host-gcc" -DCMAKE_C_FLAGS="$file_names" -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF -DCMAKE_INSTALL_PREFIX="$prefix"
cmake --build libyaml-build -j "$jobs" --target install
STEP

# its CMake files define XML_DTD without a value, which a security fix of Debian's compares with 1
step expat <<'STEP'
mkdir expat-build
printf '#define BYTEORDER 1234\n#define HAVE_MEMMOVE 1\n#define XML_CONTEXT_BYTES 1024\n#define XML_NS 1\n#define XML_DTD 1\n#define XML_GE 1\n' \
    >expat-build/expat_config.h
for part in xmlparse xmlrole xmltok; do
    "$host-gcc" -O2 -DXML_STATIC -DHAVE_EXPAT_CONFIG_H -Iexpat-build -Iexpat/expat/lib -c "expat/expat/lib/$part.c" -o "expat-build/$part.o"
done
"$host-ar" rcs "$prefix/lib/libexpat.a" expat-build/*.o
cp expat/expat/lib/expat.h expat/expat/lib/expat_external.h "$prefix/include/"
STEP

step cmocka <<'STEP'
cmake -G Ninja -S cmocka -B cmocka-build -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER="$host-gcc" -DCMAKE_C_FLAGS="$file_names" -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_SHARED_LIBS=OFF -DWITH_STATIC_LIB=ON -DWITH_EXAMPLES=OFF -DUNIT_TESTING=OFF -DCMAKE_INSTALL_PREFIX="$prefix"
cmake --build cmocka-build -j "$jobs"
cp "$(find cmocka-build -name 'libcmocka*.a' ! -name '*.dll.a' | head -n 1)" "$prefix/lib/libcmocka.a"
cp cmocka/include/cmocka*.h "$prefix/include/"
STEP

# no-autoload-config: otherwise a user who can write the folder of openssl.cnf could have code loaded into the service
# its folders are given to make, since Configure takes C:/... for a path relative to --prefix, which is a folder of this run
step openssl <<'STEP'
cd openssl
perl ./Configure mingw64 --cross-compile-prefix="$host-" --prefix="$prefix" --libdir=lib \
    no-shared no-tests no-legacy no-autoload-config no-module no-ui-console no-engine no-dso no-ssl3 no-comp no-srp no-psk \
    no-dtls -D_WIN32_WINNT=0x0A00
program='C:/Program Files/etwagent'
make -j"$jobs" build_libs OPENSSLDIR="$program/ssl" ENGINESDIR="$program/engines" MODULESDIR="$program/modules"
make install_dev
for words in "$prefix" 'built on: 19'; do
    if grep -qaF -- "$words" "$prefix/lib/libcrypto.a"; then echo "libcrypto.a has '$words' in it"; exit 1; fi
done
STEP

step curl <<'STEP'
cd curl
./configure --host="$host" --prefix="$prefix" --disable-shared --enable-static --with-openssl="$prefix" --without-ca-bundle \
    --without-ca-path --without-zlib --without-brotli --without-zstd --without-libpsl --without-libidn2 --without-nghttp2 \
    --without-libssh2 --without-librtmp --disable-ldap --disable-ldaps --disable-rtsp --disable-dict --disable-telnet \
    --disable-tftp --disable-pop3 --disable-imap --disable-smb --disable-smtp --disable-gopher --disable-mqtt --disable-ftp \
    --disable-file --disable-manual --disable-docs --disable-unix-sockets --disable-dependency-tracking --disable-pthreads --enable-threaded-resolver \
    CPPFLAGS=-D_WIN32_WINNT=0x0A00 LIBS="-lcrypt32 -lws2_32"
make -j"$jobs" -C lib install
make -C include install
STEP

# What pkg-config says when cross-compiling: everything static, with what each needs of Windows.
pc() {
    printf 'prefix=${pcfiledir}/../..\nName: %s\nDescription: %s for Windows, static\nVersion: %s\nCflags: -I${prefix}/include %s\nLibs: -L${prefix}/lib %s\n' \
        "$1" "$1" "$2" "$4" "$3" >"$prefix/lib/pkgconfig/$1.pc"
}
version_of() { sed -n "s/^$1 \([0-9]*:\)\{0,1\}\([0-9.]*[a-z]\{0,1\}\).*/\2/p" "$prefix/versions.txt"; }
rm -f "$prefix"/lib/pkgconfig/*
windows_libs="-lws2_32 -lgdi32 -ladvapi32 -lcrypt32 -luser32 -lbcrypt"
pc libzstd "$(version_of libzstd)" -lzstd ""
pc libprotobuf-c "$(version_of protobuf-c)" -lprotobuf-c ""
pc yaml-0.1 "$(version_of libyaml)" -lyaml -DYAML_DECLARE_STATIC
pc expat "$(version_of expat)" -lexpat -DXML_STATIC
pc cmocka "$(version_of cmocka)" -lcmocka ""
pc libxxhash "$(version_of xxhash)" "" ""
pc libcrypto "$(version_of openssl)" "-lcrypto $windows_libs" ""
pc libssl "$(version_of openssl)" "-lssl -lcrypto $windows_libs" ""
pc openssl "$(version_of openssl)" "-lssl -lcrypto $windows_libs" ""
pc libcurl "$(version_of curl)" "-lcurl -lssl -lcrypto $windows_libs" -DCURL_STATICLIB

echo "$key" >"$prefix/stamp"
rm -rf "$cache.old"
[ ! -e "$cache" ] || mv "$cache" "$cache.old"
mv "$prefix" "$cache"
rm -rf "$cache.old"
echo "windows libraries: in $cache"
