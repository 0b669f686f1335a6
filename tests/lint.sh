#!/usr/bin/env bash
# Form and rules of the source: clang-format, the house rules, clang-tidy, ESLint, shell and Python syntax. About a minute per core
# the first time; a file that was clean is looked at again only when it, a header, a CMakeLists.txt, .clang-tidy or the tool changed. What was
# clean is kept in EA_LINT_CACHE, or ~/.cache/etwagent/lint, for all clones.
# usage: tests/lint.sh [--quick]     quick: clang-tidy without its path analyzer, which takes nine tenths of the time
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
checks=
[ "${1:-}" = --quick ] && checks="-clang-analyzer-*"
jobs=${JOBS:-$(nproc)}
failed=0
check() {
    local name=$1
    shift
    if "$@"; then
        echo "ok      $name"
    else
        echo "FAILED  $name"
        failed=1
    fi
}
sources() { git ls-files -z --cached --others --exclude-standard -- "$@" | while IFS= read -r -d '' f; do [ -f "$f" ] && printf '%s\0' "$f"; done; }

formatted() { sources '*.c' '*.h' | xargs -0 -n 20 -P "$jobs" clang-format --dry-run -Werror; }

# clang-tidy on every C file that the dev build compiles; a stamp is a clean file's hash, with that of all headers
tidy() {
    local out=${EA_LINT_CACHE:-${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/etwagent/lint}
    mkdir -p "$out" build
    # generated headers have to be there
    { cmake --preset dev && cmake --build --preset dev -j "$jobs"; } >build/lint-build.log 2>&1 || { tail -n 20 build/lint-build.log; return 1; }
    local common
    common=$({ echo "$checks"; clang-tidy --version; cat .clang-tidy CMakePresets.json; sources '*.h' '*.proto' '*CMakeLists.txt' | sort -z | xargs -0 cat; } |
        sha256sum | cut -c1-16)
    export out common checks
    sources '*.c' | while IFS= read -r -d '' f; do
        if grep -qF "$PWD/$f\"" build/dev/compile_commands.json; then printf '%s\0' "$f"; fi
    done | xargs -0 -n 1 -P "$jobs" bash -c '
        stamp=$out/$(echo "$1" | tr / _).$common.$(sha256sum <"$1" | cut -c1-16)
        [ -e "$stamp" ] && exit 0
        if clang-tidy -quiet --checks="$checks" -p build/dev "$1" >"$stamp.log" 2>/dev/null; then
            mv "$stamp.log" "$stamp"
        else
            cat "$stamp.log"
            rm -f "$stamp.log"
            exit 1
        fi' tidy || return 1
    find "$out" -type f -mtime +7 -delete
}

shells() { sources '*.sh' .ci/run | xargs -0 shellcheck -S warning; }
pythons() { sources '*.py' | xargs -0 python3 -c 'import ast, sys
for path in sys.argv[1:]:
    ast.parse(open(path, encoding="utf-8").read(), path)'; }

check "form (make format mends it)" formatted
check "house rules" python3 tests/lint_rules.py
check "includes are of libraries that are named (tests/lint_includes.py)" python3 tests/lint_includes.py
check "planted faults of structure are found" python3 tests/lint_selftest.py
check "promises name tests that exist" python3 tests/promises.py
check "every answer has a judge" python3 tests/judges/complete.py
check "documents: links, README's size, widths of tables" python3 tests/lint_docs.py
check "words (docs/style.md)" python3 tests/lint_words.py
check "a planted answer without a judge is found" python3 tests/judges/planted_answers.py
check "shell scripts (shellcheck)" shells
check "Python syntax" pythons
check "clang-tidy" tidy
check "dashboard (ESLint, tests/ui/eslint.config.mjs)" python3 tests/lint_ui.py build/dev
check "no link cycle inside a library" python3 tests/lint_links.py build/dev
check "tables of Sigma fields name what exists" python3 tests/lint_sigma.py build/dev
check "exported functions have callers, static ones names of their own" python3 tests/lint_exports.py build/dev
check "reference pages are current (tests/generate_reference.py writes them)" python3 tests/generate_reference.py --check
exit $failed
