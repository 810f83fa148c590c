# SPDX-License-Identifier: Apache-2.0
# A thin front of meson: `make help` lists the targets. All output goes to build/.

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 30
GIT_FUZZ_SECONDS ?= 60
SEED ?=
N ?= 100000
KILLS ?= 2000
ARCH ?=
KERNEL_ARCH ?=
BUILD = build/release
MESON_SETUP = meson setup --prefix $(PREFIX)

.PHONY: all cross run test test-gpu test-long test-user test-explain test-microvm test-adapters test-programs test-kernels test-kernels-short bench bench-update lint format fuzz fuzz-git soak wheel install clean help

all: $(BUILD)/build.ninja ## build the library and the command
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@tools/install-deps.sh build
	$(MESON_SETUP) $(BUILD)

cross: ## build for another architecture, in build/ARCH (ARCH=aarch64)
	@tools/install-deps.sh build cross
	@tools/cross.sh $(or $(ARCH),aarch64)

run: all ## install what the build needs, build, run a Python snippet in a sandbox, show the receipt
	@tools/demo.sh $(BUILD)/cmd/cordon/cordon

test: ## install what the tests need, build with gcc, clang and sanitizers, run everything
	@tools/install-deps.sh build python test light
	@tools/test.sh

test-user: ## all suites as an ordinary user alone, of which `make test` runs a part
	@tools/install-deps.sh build python test
	@tools/test.sh user

test-long: ## the same, and as root what is long and the same for every caller
	@tools/install-deps.sh build python test light
	@CORDON_TEST_LONG=1 tools/test.sh

test-explain: ## everything that commands are refused and fail by themselves, and what is told about it
	@tools/install-deps.sh build python test
	@CORDON_TEST_EXPLAIN=1 PYTEST_ARGS='-k test_explain -s' tools/test.sh root user

test-microvm: ## all tests of level microvm, of which `make test` runs a part
	@tools/install-deps.sh build test
	@CORDON_MICROVM=1 tools/test.sh microvm

test-adapters: ## install the agent frameworks in virtual environments, run the adapters' suites
	@tools/install-deps.sh build python test
	@tools/test-adapters.sh

test-programs: ## install 48 everyday programs (2 GB, into build/ what Debian lacks), run each in a sandbox
	@tools/install-deps.sh build python test light programs
	@$(MAKE) --no-print-directory all
	@tools/test-programs.sh

test-kernels: ## boot Debian's kernels in QEMU and run the suites inside (KERNEL_ARCH=aarch64: another architecture's)
	@tools/install-deps.sh build kernels $(if $(filter aarch64,$(KERNEL_ARCH)),cross kernels-arm)
	@case '$(KERNEL_ARCH)' in ''|$$(uname -m)) $(MAKE) --no-print-directory all ;; \
		*) $(MAKE) --no-print-directory cross ARCH='$(KERNEL_ARCH)' ;; esac
	@tools/test-kernels.sh

test-kernels-short: ## the same for Debian 12's kernel alone, with a part of the tests that stands for the rest
	@tools/install-deps.sh build kernels
	@$(MAKE) --no-print-directory all
	@tools/test-kernels.sh short

bench: ## measure against bare processes and bubblewrap
	@tools/install-deps.sh build bench
	@$(MAKE) --no-print-directory all
	/usr/bin/python3 bench/run.py --build $(BUILD)

bench-update: ## measure what people feel, and make it the reference that `make bench` compares with
	@tools/install-deps.sh build bench
	@$(MAKE) --no-print-directory all
	/usr/bin/python3 bench/run.py --build $(BUILD) --only everyday,python,mcp --update

lint: ## format, static analysis, layers, symbols, sizes
	@tools/install-deps.sh build python lint
	@tools/lint.sh

format: ## rewrite all C files in the house format
	@tools/install-deps.sh lint
	git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format-19 -i

fuzz: ## run every fuzz target for FUZZ_SECONDS (default 30)
	@tools/install-deps.sh build fuzz
	@tools/fuzz.sh $(FUZZ_SECONDS)

fuzz-git: ## hostile commands in repositories, judged with real git of several versions (GIT_FUZZ_SECONDS, SEED)
	@tools/install-deps.sh build test gits
	@$(MAKE) --no-print-directory all
	@GIT_FUZZ_SECONDS='$(GIT_FUZZ_SECONDS)' SEED='$(SEED)' tools/fuzz-git.sh

soak: ## N runs of every kind, of the library and of the Python package (default 100000), with a census of leaks, then KILLS kills (default 2000)
	@tools/install-deps.sh build python test
	@$(MAKE) --no-print-directory all
	/usr/bin/python3 tools/soak.py --runs $(N) --build $(BUILD)
	tools/soak-python.sh $(N)
	tools/soak-python.sh $(N) warm
	CORDON_KILLS=$(KILLS) PYTEST_ARGS='-k test_kills' tools/test.sh root user

test-gpu: all ## on a machine with an NVIDIA GPU: torch, CUDA and hostile programs in runs with --gpu, and their speed
	@tests/gpu/run.sh

wheel: ## build the Python package: build/python/dist/pycordon-*.whl (ARCH=aarch64: build/python-aarch64/dist)
	@tools/install-deps.sh build python $(if $(ARCH),cross)
	@tools/wheel.sh $(ARCH)

install: all ## install below PREFIX (default /usr/local), staged in DESTDIR if given
	meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	DESTDIR=$(DESTDIR) meson install -C $(BUILD)

clean: ## remove build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r t d; do \
		printf '  make %-18s %s\n' "$$t" "$$d"; done
