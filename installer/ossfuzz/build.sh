#!/bin/bash -eu
# Builds every fuzz target for OSS-Fuzz: $SRC/etwagent is the source, $OUT gets the programs, their shared libraries and their seeds.
# OSS-Fuzz sets CC, CFLAGS, LIB_FUZZING_ENGINE, SRC, WORK and OUT.
source=$SRC/etwagent
cmake -G Ninja -S "$source" -B "$WORK/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="$CFLAGS" \
    -DCMAKE_EXE_LINKER_FLAGS="$CFLAGS" -DEA_WERROR=OFF -DEA_BUILD_FUZZERS=ON -DEA_FUZZING_ENGINE="$LIB_FUZZING_ENGINE"
targets=()
for file in "$source"/tests/fuzz/fuzz_*.c; do
    targets+=("$(basename "$file" .c)")
done
cmake --build "$WORK/build" -j "$(nproc)" --target "${targets[@]}"
mkdir -p "$OUT/lib"
for target in "${targets[@]}"; do
    program=$WORK/build/tests/fuzz/$target
    cp "$program" "$OUT/"
    # the machine that runs the targets has no libraries beside libc
    ldd "$program" | sed -n 's/.* => \(\/[^ ]*\).*/\1/p' | grep -vE '/(libc|libm|libpthread|libdl|librt|ld-linux[^/]*)\.so' | xargs -r cp -L -t "$OUT/lib"
    patchelf --set-rpath '$ORIGIN/lib' "$OUT/$target"
    seeds=$source/tests/fuzz/corpus/${target#fuzz_}
    if [ -d "$seeds" ]; then
        (cd "$seeds" && zip -q -r "$OUT/${target}_seed_corpus.zip" .)
    fi
done
