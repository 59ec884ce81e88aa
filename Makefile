# A thin front for CMake: one word for each task. `make help` lists them.
# Everything is built under build/; nothing else is written.

SEED ?= 1
N ?= 300
T ?= wire
FUZZ_SECONDS ?= 60
# How many tests at once: most wait most of their time, but under sanitizers, which .ci/run runs side by side, less of it.
PROCESSORS := $(shell nproc 2>/dev/null || echo 2)
JOBS = $(shell expr $(if $(filter asan tsan,$@),3,6) '*' $(PROCESSORS))
BUILD := build/default
PROGRAMS := build/programs
# CONFIG=nightly: also the tests that only `make nightly` runs.
CONFIG ?=
TIMES ?= 3
MINUTES ?= 10
RESULTS := $(CURDIR)/build/results
PYTHON := $(firstword $(wildcard /usr/bin/python3) python3)
# Where address space randomization confuses the sanitizers of gcc 12 and clang 14, run without it.
STEADY := $(shell setarch -R true 2>/dev/null && echo setarch -R)
# More of them at once than processors finds more, too. What a failed test says last is what counts: the whole output goes
# to the results.
CTEST = ctest --output-on-failure --no-tests=error --parallel $(JOBS) --test-output-size-failed 16777216 $(CONFIG:%=-C %)

# The compiler's cache, where it is there: tests build the sources again as others do (tests/cached.py). `make test` may
# have installed it before it calls make again.
ifeq ($(CMAKE_C_COMPILER_LAUNCHER),)
CMAKE_C_COMPILER_LAUNCHER := $(shell command -v ccache)
endif
export CMAKE_C_COMPILER_LAUNCHER
export CCACHE_DIR ?= $(CURDIR)/build/ccache
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1

.DEFAULT_GOAL := build
.PHONY: help deps build check test nightly shake cross wheels packages python demo kill chaos sim oom audit bench bench-compare bench-wan bench-gate figures \
	wiredoc apidoc docs ratchets abi dist fuzz asan tsan clang coverage lint format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' Makefile

deps: ## install what Debian 12 needs for all of this, if anything is missing
	@scripts/deps

# What is missing is named; only `make deps`, `make demo` and `make test` install.
build: ## build everything (build/default)
	@scripts/deps --check build
	@cmake --preset default >/dev/null
	@cmake --build --preset default

check: build ## the inner loop: build and the tests that are quick, under a minute
	@cd $(BUILD) && $(CTEST) --label-exclude 'slow|install|python'

test: ## install what is missing, build and run all tests
	@scripts/deps build
	@$(MAKE) --no-print-directory build
	@mkdir -p $(RESULTS)
	@cd $(BUILD) && $(CTEST) --output-junit $(RESULTS)/test.xml

nightly: ## what is long and deep, in parts: PART=name, or all that have not passed on this commit; build/nightly/report.md
	@scripts/nightly $(PART)

shake: build ## the tests in any order, seven at a time, on a machine that is made busy and slow: TIMES=n R=regex (SEED=n, PAUSES=1: also freeze processes; root)
	@scripts/shake $(BUILD) --times $(TIMES) $(if $(PAUSES),--pauses) $(if $(R),--tests '$(R)') $(if $(filter command,$(firstword $(origin SEED))),--seed $(SEED))

python: build ## build and run the tests of the Python package, in build/venv, which they make
	@cd $(BUILD) && $(CTEST) --label-regex python

demo: ## install what is missing, build; four processes train a small transformer: one is killed, one joins; under two minutes
	@scripts/deps demo
	@cmake --preset programs >/dev/null
	@cmake --build --preset programs
	@scripts/demo $(PROGRAMS)

kill: build ## kill real processes in bulk reductions at random moments: N=kills (SEED=n)
	@scripts/kill $(BUILD) $(N) $(if $(filter command,$(firstword $(origin SEED))),$(SEED))

chaos: build ## faults of all kinds at random against real processes, and a checker of all that they saw: MINUTES=n (SEED=n), or bugs that it must find: PLANTS=1; root
	@$(PYTHON) -B tests/chaos/$(if $(PLANTS),planted.py --build $(BUILD),chaos.py --build $(BUILD) --minutes $(MINUTES) \
		$(if $(filter command,$(firstword $(origin SEED))),--seed $(SEED)))

sim: build ## one seed of the simulator with its trace: SEED=n
	@$(BUILD)/tests/sim/sim --seed $(SEED) --trace

oom: build ## let every allocation fail once, and several in a row: machines, then the public functions
	@for count in 1 5; do $(BUILD)/tests/sim/sim --oom $$count || exit 1; done
	@$(BUILD)/tests/unit/test_starved

audit: build ## plant known bugs one after another; the simulator must catch each
	@$(PYTHON) tests/sim/audit.py

bench: build ## what the master costs: time for each operation
	@for peers in 2 8 32; do $(BUILD)/bench/bench_master_load $$peers; done

bench-compare: build ## this library beside Gloo, OpenMPI and plain sockets (scripts/deps-bench installs them)
	@bench/compare.py --build $(BUILD)

bench-wan: build ## the same over 1 Gbit/s, 25 ms one way, 0.1 % loss (needs root)
	@bench/compare.py --build $(BUILD) --rows pccl,pccl-u8,gloo-ring,gloo-bcube,mpi --peers 2,4 \
		--sizes 1M,64M,256M --wan 1000,25,0.1

bench-gate: build ## instructions of the inner parts against bench/instructions.json; minutes
	@bench/gate.py --build $(BUILD)

figures: build ## measure times and rates alone, beside bench/goals.json; an hour or more (FIGURES='--only REGEX')
	@bench/figures.py --build $(BUILD) $(FIGURES)

wiredoc: build ## write docs/WIRE.md and docs/METRICS.md anew from src/wire/schema.h and src/ops/metrics.h
	@$(BUILD)/tools/wire_doc >docs/WIRE.md
	@$(BUILD)/tools/metrics_doc >docs/METRICS.md

apidoc: ## write the API reference from the headers and the Python package: build/api
	@$(PYTHON) tools/api_doc.py --write build/api

docs: ## build the documentation site in build/site; every link and anchor must exist
	@scripts/docs

ratchets: build ## record better values of what tidy/ratchets measures, and print them (RAISE='lines code': worse ones of these)
	@$(PYTHON) -B tests/tidy/ratchets.py write --root . --nm nm --objects $(BUILD)/tests/tidy/all.txt $(if $(RAISE),--raise $(RAISE))

abi: build ## at a release: write down the ABI that abi/library compares later ones with
	@$(PYTHON) -B tests/abi/library.py $(BUILD)/src/libpccl.so --write

dist: ## what a release has besides wheels, in build/dist: TAG=v1.2.3 checks that it is that version
	@scripts/dist $(TAG)

fuzz: ## fuzz one parser with libFuzzer: T=target FUZZ_SECONDS=n
	@scripts/deps --check all
	@cmake --preset fuzz >/dev/null && cmake --build --preset fuzz --target fuzz_$(T)
	@mkdir -p build/fuzz/found/$(T)
	@$(STEADY) build/fuzz/tests/fuzz/fuzz_$(T) -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
		build/fuzz/found/$(T) tests/fuzz/corpus/$(T)

asan tsan:
	@scripts/deps --check all
	@cmake --preset $@ -DPCCL_OPTIMIZED_TESTS=$(if $(CONFIG),ON,OFF) >/dev/null && cmake --build --preset $@
	@mkdir -p $(RESULTS)
	@cd build/$@ && $(STEADY) $(CTEST) --output-junit $(RESULTS)/$@.xml

asan: ## the tests that tell most under gcc AddressSanitizer and UndefinedBehaviorSanitizer (CONFIG=nightly: all)
tsan: ## the tests with threads under clang ThreadSanitizer, without suppressions (CONFIG=nightly: all)

clang: ## build and test with clang
	@scripts/deps --check all
	@cmake --preset clang >/dev/null && cmake --build --preset clang
	@cd build/clang && $(CTEST) --label-exclude 'slow|install'

cross: ## build for other systems, run the unit tests there: TARGETS='x86_64-linux-musl ...'; installs what it needs
	@scripts/cross $(TARGETS)

wheels: ## build the wheels of the Python package, install and use them: TARGETS='x86_64-windows ...'; installs what it needs
	@scripts/wheels $(TARGETS)

packages: ## build and check packages: PACKAGES='static deb ...'; root; installs what it needs
	@scripts/packages $(PACKAGES)

coverage: ## the lines that no test reaches, as a table (a quarter of an hour)
	@scripts/deps --check all
	@rm -rf build/coverage
	@cmake -S . -B build/coverage -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=gcc \
		-DCMAKE_C_FLAGS='--coverage -O1 -fprofile-exclude-files=.*/tests/.*' >/dev/null
	@cmake --build build/coverage >/dev/null
	@cd build/coverage && $(CTEST) -R '^(unit|fuzz|e2e)/|^sim/scenarios|^rig/exhaustive|^tidy/wire_doc'; \
		tests/sim/sim --first 1 --seeds 500
	@test -x build/gcovr/bin/gcovr || { $(PYTHON) -m venv build/gcovr && build/gcovr/bin/pip -q install gcovr; }
	@build/gcovr/bin/gcovr build/coverage --filter src/ --filter tools/ --merge-lines \
		--gcov-ignore-parse-errors negative_hits.warn --txt

lint: ## format, clang-tidy, gcc's analyzer, scripts, types (DEEP=1: also clang's analyzer, which takes minutes)
	@scripts/deps --check all
	@cmake --preset default >/dev/null
	@scripts/lint $(if $(DEEP),--deep)

format: ## format the C sources in place
	@scripts/deps --check all
	@scripts/format

clean: ## remove build/
	@rm -rf build
