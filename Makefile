# The few things people do here. Each prints the plain command it runs.
#
#   make run    install what is missing, build, run a real workload without and with reuse
#               (ENGINE=llama: on llama.cpp, with MODEL= and MMPROJ= or a demo model)
#   make test   install what is missing, build with ASan and UBSan, run all tests
#
# make help lists the rest. NO_INSTALL=1 skips the installation; JOBS=n limits the compilers.

JOBS ?= $(shell nproc)
WORKLOAD ?= examples/$(if $(filter llama,$(ENGINE)),shared_images,agents).jsonl
MODEL ?= build/models/dense.gguf
MMPROJ ?= $(MODEL:.gguf=.mmproj.gguf)
TRACES ?= ../shared/traces
CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS)
install = @$(if $(NO_INSTALL),true,scripts/install-deps.sh) $(1)
engine = $(if $(ENGINE),--engine $(ENGINE)) $(if $(filter llama,$(ENGINE)),--model $(MODEL) $(MMPROJ:%=--mmproj %))
SOURCES = git ls-files '*.h' '*.cc'

# Tests and benchmarks take llama.cpp along where it can be had; LLAMA=0 leaves it out.
llama = @[ "$(LLAMA)" = 0 ] || $(MAKE) --no-print-directory llama || \
  echo "Going on without llama.cpp: the reason stands above, and what needs that engine is left out."

.PHONY: help run llama drill traces test test-release tsan python test-python test-transformers test-vllm bench bench-python build fmt lint analyze fire fuzz docs examples install-deps clean
.DEFAULT_GOAL := help

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install-deps: ## what is missing, from the distribution's packages
	$(call install)

build: install-deps $(filter llama,$(ENGINE)) ## the release build, in build/release
	cmake --preset release -DAFTERIMAGE_TESTS=OFF -DAFTERIMAGE_BENCH=OFF -DAFTERIMAGE_FUZZ=OFF -DAFTERIMAGE_EXAMPLES=OFF
	cmake --build build/release -j $(JOBS) --target afterimage_cli

run: build ## the main job on real images: outputs identical? what was saved? DISK=DIR keeps it
	build/release/afterimage run --workload $(WORKLOAD) $(if $(DISK),--disk $(DISK)) $(engine)

llama: ## llama.cpp in build/llama and demo models in build/models
	$(call install,llama)
	scripts/build-llama.sh
	scripts/make-demo-models.py build/models

drill: build ## a hog takes the memory of a control group: is it given back, are outputs identical?
	scripts/pressure-drill.py build/release/afterimage

traces: ## every policy on the traces in TRACES=../shared/traces, between its bounds
	@ls $(TRACES)/*.jsonl.gz >/dev/null 2>&1 || { \
	  echo "There are no traces (*.jsonl.gz) in '$(TRACES)'. Name a folder: make traces TRACES=DIR"; exit 2; }
	@$(MAKE) --no-print-directory build
	build/release/afterimage replay --trace $(TRACES)/*.jsonl.gz --report build/traces.html

test: ## everything, under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call install,test)
	$(llama)
	cmake --preset dev -DAFTERIMAGE_LLAMA=$(if $(filter 0,$(LLAMA)),OFF,AUTO)
	cmake --build --preset dev -j $(JOBS)
	$(CTEST) --test-dir build/dev
	@$(MAKE) --no-print-directory test-python NO_INSTALL=1

tsan: ## the same tests under ThreadSanitizer
	$(call install,test)
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS)
	$(CTEST) --test-dir build/tsan

test-release: install-deps ## the same tests without sanitizers, by the system's compiler
	cmake --preset plain
	cmake --build --preset plain -j $(JOBS)
	$(CTEST) --test-dir build/plain

bench: ## medians and ratios, with the peers beside them
	$(call install,bench)
	$(llama)
	cmake --preset release -DAFTERIMAGE_TESTS=OFF -DAFTERIMAGE_BENCH=ON \
	  -DAFTERIMAGE_LLAMA=$(if $(filter 0,$(LLAMA)),OFF,AUTO)
	cmake --build build/release -j $(JOBS)
	bench/run.py build/release

python: ## the Python package's wheel and source distribution, in build/python
	$(call install,python)
	python/build.sh build/python

test-python: ## the Python package in a fresh virtual environment; SANITIZE=1 with ASan and UBSan
	$(call install,test)
	python/test.sh

test-transformers: ## the same for afterimage.transformers, with torch and transformers
	$(call install,test)
	python/test.sh transformers

test-vllm: ## the same for afterimage.vllm, with vLLM itself
	$(call install,test)
	python/test.sh vllm

bench-python: ## what a call through the Python binding costs (VLLM=1: beside vLLM's own class), and transformers' first token
	$(call install,test)
	VLLM=$(VLLM) python/test.sh bench

fmt: ## format every C++ file (clang-format-19)
	$(call install,clang)
	$(SOURCES) | xargs clang-format-19 -i

lint: ## is everything formatted?
	$(call install,clang)
	$(SOURCES) | xargs clang-format-19 --dry-run --Werror

analyze: ## clang-tidy and clang's thread-safety analysis over everything
	$(call install,clang)
	cmake --preset analyze
	cmake --build --preset analyze -j $(JOBS)

fire: ## everything under faults, in 20 minutes: what was lost, what was wrong? REPORT=FILE writes it down
	$(call install,test)
	cmake --preset fire
	cmake --build --preset fire -j $(JOBS)
	build/fire/tests/fire/afterimage_fire --proof --folder build/fire --markdown $(or $(REPORT),build/fire/faults.md)

fuzz: ## every fuzz target under libFuzzer, SECONDS_EACH=60, and a table of what was done
	$(call install,clang)
	cmake --preset fuzz
	cmake --build --preset fuzz --target fuzz_targets -j $(JOBS)
	fuzz/run.sh build/fuzz $(or $(SECONDS_EACH),60) $(JOBS)

docs: build ## regenerate what the README shows of the program and the help texts that tests compare
	scripts/update-docs.py build/release/afterimage

examples: ## draw the example media and write the example workload again
	python3 examples/render_media.py
	python3 examples/make_agents.py

clean: ## forget every build
	rm -rf build
