# A thin front: each target is one line that calls another tool. `make help` lists them.
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
BENCH_RUNS ?= 5
VERSION ?= 0.1.0

.PHONY: all deb msi release check test quick traces soak demo bench fuzz windows lint pages format clean help

all: ## build both programs and the tests (preset dev)
	@installer/deps/packages.sh build demo
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS)

release: ## build both programs for use (preset release)
	@installer/deps/packages.sh build demo
	cmake --preset release
	cmake --build --preset release -j $(JOBS)

check: all ## the unit tests of the dev build: less than a minute after the build
	@ctest --test-dir build/dev --output-on-failure --no-tests=error -L '^unit$$' -LE '^slow$$' -j $$((2 * $(JOBS))) # half of their time is waiting

test: ## everything that CI runs: all presets, all tests, the Windows build, lint
	@installer/deps/packages.sh
	@python3 tests/run_all.py

quick: ## unit, golden and end-to-end tests of the dev build only
	@installer/deps/packages.sh build test
	@python3 tests/run_all.py --only dev

traces: ## fetch the real traces that some tests need from public repositories (tests/traces.tsv)
	@installer/deps/packages.sh traces
	@python3 tests/fetch_traces.py

soak: ## the long form of the tests, under every sanitizer, and minutes of each fuzz target
	@installer/deps/packages.sh
	@python3 tests/run_all.py --soak

demo: ## a trace, an agent, a collector and the machine rebuilt, in under two minutes
	@installer/deps/packages.sh build demo
	@tests/demo.sh

bench: ## every stage, alone and together, beside references measured in the same run; BENCH_RUNS of each; BESIDE=DIR: another release's build
	@installer/deps/packages.sh build test
	@python3 tests/bench/run.py --runs $(BENCH_RUNS) $(if $(BESIDE),--beside $(BESIDE))

fuzz: ## FUZZ_SECONDS of each fuzz target, from its corpus
	@installer/deps/packages.sh build test
	@python3 tests/fuzz/run.py --seconds $(FUZZ_SECONDS)

deb: release ## the collector's Debian package, in build/ (VERSION=1.2.3)
	installer/debian/build-deb.sh build/release $(VERSION) build/etwcollector_$(VERSION).deb

msi: windows ## the agent's MSI for Windows, in build/ (VERSION=1.2.3)
	installer/windows/build_msi.py --exe build/windows/service/app/etwagent.exe --version $(VERSION) --output build/etwagent-$(VERSION).msi

windows: ## cross-compile for Windows (preset windows)
	@installer/deps/packages.sh build windows
	@installer/deps/build-windows-deps.sh
	cmake --preset windows
	cmake --build --preset windows -j $(JOBS)

lint: ## formatting, clang-tidy, include rules, banned functions
	@installer/deps/packages.sh build test
	@tests/lint.sh

pages: all ## write the generated pages in config/ and docs/reference and the expected messages anew
	@python3 tests/e2e/test_config.py --build build/dev --update

format: ## bring every C file into the house's form (lists of macros take clang-format several passes)
	git ls-files -z '*.c' '*.h' | xargs -0 sh -c 'for pass in 1 2 3 4 5 6 7 8 9 10 11 12; do \
	    clang-format -i "$$@"; clang-format --dry-run -Werror "$$@" 2>/dev/null && exit; done' format

clean: ## remove what was built
	rm -rf build

help: ## this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 18
