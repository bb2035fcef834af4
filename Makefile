# The common tasks. Each prints the commands that it runs.
#
#   make run    install dependencies, build, run a real workload without and with reuse
#               (ENGINE=llama: on llama.cpp, with MODEL= and MMPROJ=, or Gemma 3 270M and the small model that sees)
#   make test   install dependencies, build with ASan and UBSan, run all tests
#
# make help lists the rest. NO_INSTALL=1 skips the installation; JOBS=n limits parallel jobs.

JOBS ?= $(shell nproc)
# After `make llama`, make run asks the small model that sees; before, the built-in reference engine.
ENGINE ?= $(if $(wildcard build/models/seer.gguf),llama)
WORKLOAD ?= examples/$(if $(filter llama,$(ENGINE)),scenes,agents).jsonl
MODEL ?= build/models/seer.gguf
MMPROJ ?= $(MODEL:.gguf=.mmproj.gguf)
TRACES ?= ../shared/traces
# One more than cores: some tests wait for servers and browsers most of the time.
CTEST = ctest --output-on-failure --no-tests=error -j $$(($(JOBS) + 1))
# Together they take a fifth of the time, and seldom find what others do not: SLOW=0 leaves them out.
SLOW_TESTS = ^(fire|lab-long|house:a_stranger_can_find_the_package|gateway-audio|gateway-video|draws:DrawsDistribution|gateway-page|gateway-page-fake|gateway-documents|gateway-lost-prefixes|gateway-llama-billing|remote-sharing|llama_kernels:LibraryKernels|gateway-metrics-fake|gateway-demo|gateway-fleet-llama|gateway-moved-media-llama|gateway-hostile-fleet|gateway-hostile-routes|certify:CertifyMutations|seer:.*|fleet:FleetSimulation|simulation:Simulation|experiment:AnswerTrial|answers:SharedAnswersStory|llama:LlamaRestore|llama:Llama/Conversation/(sliding|hybrid|shortconv)|reference:ReferenceHybrid/EngineConformance/all_twice|llama:SelfCheck|llama:.*/EngineConformance/(sliding|hybrid|shortconv|dense_restored))$$
install = @$(if $(NO_INSTALL),true,scripts/install-deps.sh) $(1)
llama_engine = --engine llama --model $(MODEL) $(MMPROJ:%=--mmproj %) --max-tokens 32
engine = $(if $(filter llama,$(ENGINE)),$(llama_engine) --report build/report.html,$(if $(ENGINE),--engine $(ENGINE)))
asked_llama = $(if $(filter-out file,$(origin ENGINE)),$(filter llama,$(ENGINE)))
# ENGINE=llama without MODEL=: first text on Gemma 3 270M, then questions about pictures, whose right answers are known.
GEMMA = build/models/gemma-3-270m-q4_k_m.gguf
trained = $(if $(and $(asked_llama),$(filter file,$(origin MODEL))),[ ! -e $(GEMMA) ] || build/release/afterimage run \
  --workload examples/conversations.jsonl --engine llama --model $(GEMMA) --chat-template gemma --context 2048)
SOURCES = git ls-files '*.h' '*.cc'

# Tests with PDF files are skipped, and shown as skipped, without it.
pdfium = @python3 -m pip --version >/dev/null 2>&1 && scripts/fetch-pdfium.py build/pdfium || \
  echo "Continuing without PDFium: tests that need it are skipped (scripts/fetch-pdfium.py build/pdfium)."
# Tests and benchmarks include llama.cpp if it can be built; LLAMA=0 leaves it out.
llama = @[ "$(LLAMA)" = 0 ] || $(MAKE) --no-print-directory llama || \
  echo "Continuing without llama.cpp (see the error above): tests and benchmarks that need it are skipped."

.PHONY: help run llama demo train drill erase-drill redis-matrix prefix-drill write-drill traces findings test test-trained test-release tsan python packages test-packages test-decoders test-deb test-oci test-arm test-wheel test-agents test-clients test-client-errors test-frameworks test-llama-server test-python test-transformers test-vllm test-sglang test-lmcache bench bench-python build fmt lint gcc analyze all-checks fire fuzz docs examples install-deps clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

install-deps: ## install missing dependencies from the distribution's packages
	$(call install)

release = cmake --preset release -DAFTERIMAGE_TESTS=OFF -DAFTERIMAGE_BENCH=OFF -DAFTERIMAGE_FUZZ=OFF -DAFTERIMAGE_EXAMPLES=OFF
program = cmake --build build/release -j $(JOBS) --target afterimage_cli

build: install-deps $(asked_llama) ## build the release, in build/release
	$(release) -DAFTERIMAGE_VERBS=all
	$(program)

lab: install-deps $(asked_llama) ## build afterimage-lab (experiments, simulations, pressure scripts), in build/release
	$(release)
	cmake --build build/release -j $(JOBS) --target afterimage_lab

seeds: build lab ## run each claim of the five original systems as a user does: a table (PYTHON=, with the package, for those about Python)
	AFTERIMAGE_PROGRAM=build/release/afterimage $(or $(PYTHON),python3) tests/seeds/seeds.py

docs: lab
.PHONY: lab seeds

# The first time, only the verb `run` is built: the table is there sooner.
run: install-deps $(asked_llama) ## run the example workload without and with reuse, compare outputs, print savings (DISK=DIR: cache on disk)
	$(release) $(if $(wildcard build/release/CMakeCache.txt),,-DAFTERIMAGE_VERBS=run)
	$(program)
	$(trained)
	build/release/afterimage run --workload $(WORKLOAD) $(if $(DISK),--disk $(DISK)) $(engine)

llama: ## build llama.cpp in build/llama; the small model that sees, demo models, Gemma 3 270M and MiniLM in build/models
	$(call install,llama)
	scripts/build-llama.sh
	scripts/make-demo-models.py build/models
	models/to_gguf.py models/weights build/models
	scripts/fetch-models.py build/models && scripts/fetch-embedder.py build/models || \
	  echo "Continuing without trained weights: tests that need them are left out."

demo: ## build with llama.cpp and serve the small model that sees; the dashboard asks it about pictures
	@$(MAKE) --no-print-directory build ENGINE=llama
	build/release/afterimage serve --demo

train: ## train the small model that sees from nothing, in build/models/seer: two hours on two cores, five minutes with DEVICE=cuda
	@[ -x build/seer-env/bin/python ] || python3 -m venv build/seer-env
	build/seer-env/bin/pip install -q --disable-pip-version-check -r models/requirements.txt
	build/seer-env/bin/python models/train.py build/models/seer --device $(or $(DEVICE),cpu)

drill: build ## memory-pressure drills: a hog fills a control group; caches of `run` and of `serve` must shrink, outputs stay identical
	scripts/pressure-drill.py build/release/afterimage
	scripts/serve-drill.py build/release/afterimage
	@if [ -e build/models/seer.gguf ]; then set -x; \
	  scripts/serve-drill.py build/release/afterimage --engine llama --model build/models/seer.gguf --mmproj build/models/seer.mmproj.gguf; \
	else echo "drill: without build/models/seer.gguf (make llama) serve --engine llama was not tried"; fi

prefix-drill: build ## is what the gateway says of prompts what a real server reuses? UPSTREAM=http://127.0.0.1:8000
	scripts/prefix-drill.py build/release/afterimage --upstream $(UPSTREAM)

write-drill: build ## kill -9 of `serve` after two seconds of rest: every answer that it had stored must be found again
	scripts/write-drill.py build/release/afterimage

erase-drill: build ## erase what gateways stored, let Redis fail over and restart, ask again: a table; nothing erased may be served
	scripts/erase-drill.py build/release/afterimage

redis-matrix: ## share, erase and survive on every Redis, Valkey and kin that can be had, in eight settings: a table; nothing may be lost or wrong
	$(call install,test)
	$(call install,bench)
	$(release) -DAFTERIMAGE_BENCH=ON
	cmake --build build/release -j $(JOBS) --target remote_user
	scripts/redis-matrix.py build/release/bench/remote_user $(MATRIX)

traces: ## replay the traces in TRACES=../shared/traces through every eviction policy
	@ls $(TRACES)/*.jsonl.gz >/dev/null 2>&1 || { \
	  echo "No traces (*.jsonl.gz) in '$(TRACES)'. Name their folder: make traces TRACES=DIR"; exit 2; }
	@$(MAKE) --no-print-directory build
	build/release/afterimage replay --trace $(TRACES)/*.jsonl.gz --report build/traces.html

findings: ## run the scripts in findings/: does other software still behave as each says? A table (downloads of gigabytes)
	scripts/run-findings.py

test: ## run all tests under AddressSanitizer and UndefinedBehaviorSanitizer (FUZZ=0, SLOW=0: without corpora of fuzz targets, without the slowest; BATCH=24: from nothing sooner, after a change later, reports without lines)
	$(call install,test)
	$(pdfium)
	$(llama)
	cmake --preset dev -DAFTERIMAGE_LLAMA=$(if $(filter 0,$(LLAMA)),OFF,AUTO) -DAFTERIMAGE_FUZZ=$(if $(filter 0,$(FUZZ)),OFF,ON) $(BATCH:%=-DAFTERIMAGE_BATCH=% -DCMAKE_CXX_FLAGS_DEBUG=-O0)
	cmake --build --preset dev -j $(JOBS)
	$(CTEST) --test-dir build/dev -E 'gemma3$(if $(filter 0,$(SLOW)),|$(SLOW_TESTS))'
	@scripts/test-counts.py build/dev
	@$(MAKE) --no-print-directory test-python NO_INSTALL=1 $(if $(BATCH),CXX=clang++-19)

test-agents: build ## five coding agents, unmodified, each twice against `serve` and a scripted model: a table
	@mkdir -p build/agents && cp tests/agents/package.json build/agents
	cd build/agents && npm install --silent --no-audit --no-fund
	@# Their programs come with scripts that newer versions of npm do not run.
	cd build/agents/node_modules && (cd @anthropic-ai/claude-code && node install.cjs) && (cd opencode-ai && node postinstall.mjs)
	AFTERIMAGE_PROGRAM=$(CURDIR)/build/release/afterimage python3 tests/agents/agents_test.py build/agents
	AFTERIMAGE_PROGRAM=$(CURDIR)/build/release/afterimage python3 tests/agents/prefix_test.py build/agents

test-clients: build ## 26 clients and frameworks, unmodified, each case by two people against `serve` with default settings: a table (gigabytes)
	AFTERIMAGE_PROGRAM=$(CURDIR)/build/release/afterimage python3 tests/clients/clients_test.py build/clients $(CLIENTS)
	AFTERIMAGE_PROGRAM=$(CURDIR)/build/release/afterimage python3 tests/clients/diagnostics_test.py build/clients

test-client-errors: build ## what users of clients and frameworks see when the model's server fails: the second table of docs/errors.md; AGENTS=FOLDER adds Codex and Claude Code
	AFTERIMAGE_PROGRAM=$(CURDIR)/build/release/afterimage python3 tests/clients/errors_test.py build/clients $(CLIENTS) $(if $(AGENTS),--agents $(AGENTS))

test-frameworks: ## LangChain's and LlamaIndex's OpenAI classes on the llama engine, after `make test`
	@[ -x build/frameworks/bin/python ] || python3 -m venv build/frameworks
	build/frameworks/bin/pip install -q --disable-pip-version-check -r tests/gateway/clients/frameworks.txt
	AFTERIMAGE_PROGRAM=$(CURDIR)/build/dev/afterimage AFTERIMAGE_LLAMA_MODEL=$(CURDIR)/build/models/dense.gguf \
	  build/frameworks/bin/python tests/gateway/frameworks_test.py -v

test-llama-server: install-deps ## llama.cpp's own server tests on the llama engine, beside llama-server; writes docs/llama-server-tests.md
	$(call install,llama)
	scripts/build-llama.sh --server
	scripts/make-demo-models.py build/models
	$(release) -DAFTERIMAGE_VERBS=all
	$(program)
	tests/llama_server/run.py build/release --markdown docs/llama-server-tests.md

test-trained: ## after `make test`: the conformance suite, a conversation and 200 questions on Gemma 3 270M, about five minutes
	@[ -e $(GEMMA) ] || { echo "There is no $(GEMMA): scripts/fetch-models.py build/models"; exit 2; }
	cmake --build --preset dev -j $(JOBS)
	$(CTEST) --test-dir build/dev -R gemma3 -j 1

tsan: ## run the tests under ThreadSanitizer
	$(call install,test)
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS)
	$(CTEST) --test-dir build/tsan

test-release: install-deps ## run the tests without sanitizers, built by the system's compiler
	cmake --preset plain
	cmake --build --preset plain -j $(JOBS)
	$(CTEST) --test-dir build/plain

bench: ## run the benchmarks: medians, and ratios to peers
	$(call install,bench)
	$(llama)
	cmake --preset release -DAFTERIMAGE_TESTS=OFF -DAFTERIMAGE_BENCH=ON \
	  -DAFTERIMAGE_LLAMA=$(if $(filter 0,$(LLAMA)),OFF,AUTO)
	cmake --build build/release -j $(JOBS)
	bench/run.py build/release

python: ## build Python wheels and the source distribution, without the program, in build/python (PYTHONS="3.10 3.11 3.12": with exactly these)
	$(call install,python)
	PYTHONS="$(PYTHONS)" python/build.sh build/python

packages: ## build wheels, an archive, a Debian package and an OCI image that need only the C library, in build/packages (KINDS="wheel tar deb": these; LLAMA=0)
	$(call install,packages)
	scripts/make-packages.sh $(KINDS)

test-packages: ## install each package in bare Debian 12 and 13, Ubuntu 24.04 and 26.04, and answer from the cache: a table (root, debootstrap; SYSTEMS=noble: these)
	@ls build/packages/afterimage* >/dev/null 2>&1 || $(MAKE) --no-print-directory packages
	$(call install,oci)
	tests/packages/packages_test.py build/packages $(SYSTEMS)

test-deb: ## check the Debian package of make packages with lintian; install, run and remove it in a bare Debian 12 (root, debootstrap)
	@ls build/packages/afterimage_*.deb >/dev/null 2>&1 || $(MAKE) --no-print-directory packages KINDS=deb
	$(call install,deb)
	tests/deb/deb_test.sh build/packages/afterimage_*.deb

test-decoders: ## do the programs of make packages decode media as those of make build do, bit for bit?
	@ls build/packages/tree/usr/bin/afterimage >/dev/null 2>&1 || $(MAKE) --no-print-directory packages KINDS=tar
	@$(MAKE) --no-print-directory build
	$(call install,test)
	tests/packages/decoders_test.py build/release/afterimage build/packages/tree/usr/bin/afterimage

test-oci: ## check the image of make packages, and run the program from its root file system (root)
	@ls build/packages/afterimage-*-oci.tar >/dev/null 2>&1 || $(MAKE) --no-print-directory packages KINDS=oci
	python3 tests/oci/image_test.py build/packages/afterimage-*-oci.tar

test-arm: ## build the program for 64-bit ARM, without llama.cpp, and run it with qemu: tests, and an answer from the cache (Debian)
	$(call install,arm64)
	JOBS=$(JOBS) scripts/build-arm64.sh

test-wheel: ## install the wheels of make python, with each Python here and in a bare Debian 12 and Ubuntu 24.04 (root, debootstrap), and run the package's tests
	@ls build/python/afterimage-*.whl >/dev/null || $(MAKE) --no-print-directory python
	python/test-wheel.sh build/python $(WHERE)

test-python: ## test the Python package in a fresh virtual environment (SANITIZE=1: with ASan and UBSan; CXX=clang++-19: built in two thirds of the time)
	$(call install,test)
	python/test.sh

test-transformers: ## test afterimage.transformers, with torch and transformers
	$(call install,test)
	python/test.sh transformers

test-vllm: ## test afterimage.vllm with vLLM's classes, its engine on a CPU and its own tests (VLLM_VERSION=0.31.0: another version)
	$(call install,test)
	python/test.sh vllm

test-sglang: ## test afterimage.sglang with SGLang's classes, without a GPU
	$(call install,test)
	python/test.sh sglang

test-lmcache: ## test afterimage.lmcache with LMCache, and run LMCache's own tests of L2 connectors on it
	$(call install,test)
	python/test.sh lmcache

bench-python: ## benchmark the Python binding, vLLM's EC connector and transformers' time to first token (VLLM=1: vLLM's scheduler and engine)
	$(call install,test)
	VLLM=$(VLLM) python/test.sh bench

fmt: ## format every C++ file (clang-format-19)
	$(call install,clang)
	$(SOURCES) | xargs clang-format-19 -i

lint: ## check the formatting
	$(call install,clang)
	$(SOURCES) | xargs clang-format-19 --dry-run --Werror

gcc: ## compile everything but the benchmarks with g++: warnings are errors (TESTS=0: only what is installed, the lab and the examples; OBJECTS=0: only check the sources, in half the time)
	$(call install,test)
	cmake --preset gcc -DAFTERIMAGE_LLAMA=$(if $(filter 0,$(LLAMA)),OFF,AUTO) $(foreach part,TESTS FUZZ FIRE,-DAFTERIMAGE_$(part)=$(if $(filter 0,$(TESTS)),OFF,ON)) \
	  $(if $(filter 0,$(OBJECTS)),-B build/gcc-check -DCMAKE_CXX_COMPILER_LAUNCHER=$(CURDIR)/scripts/check-only.sh)
	$(if $(filter 0,$(OBJECTS)),ninja -C build/gcc-check -t targets all | sed -n 's/: CXX_COMPILER.*//p' | xargs ninja -C build/gcc-check -j $(JOBS),cmake --build --preset gcc -j $(JOBS))

all-checks: ## run what continuous integration leaves out, several hours, and print a table (CHECKS="tsan fire": these)
	scripts/all-checks.py $(CHECKS)

analyze: ## run clang-tidy and clang's thread-safety analysis
	$(call install,clang)
	cmake --preset analyze
	cmake --build --preset analyze -j $(JOBS)

fire: ## run the fault-injection suite, about 20 minutes (REPORT=FILE: write the report)
	$(call install,test)
	cmake --preset fire
	cmake --build --preset fire -j $(JOBS)
	build/fire/tests/fire/afterimage_fire --proof --folder build/fire --markdown $(or $(REPORT),build/fire/faults.md)
	tests/fire/plugin_faults.py --markdown $(or $(REPORT),build/fire/faults.md)

fuzz: ## run every fuzz target under libFuzzer (SECONDS_EACH=60; RUNS=n: at most n executions) and print a table
	$(call install,clang)
	cmake --preset fuzz
	cmake --build --preset fuzz --target fuzz_targets -j $(JOBS)
	RUNS=$(or $(RUNS),-1) fuzz/run.sh build/fuzz $(or $(SECONDS_EACH),60) $(JOBS)

docs: build ## regenerate the drawings, the program output in the README and docs/, and the --help snapshots
	scripts/draw-docs.py
	scripts/update-docs.py build/release/afterimage

examples: ## regenerate the example media and workloads
	python3 examples/render_media.py
	python3 examples/make_agents.py
	python3 examples/make_conversations.py
	python3 examples/make_scenes.py

clean: ## delete all builds
	rm -rf build
