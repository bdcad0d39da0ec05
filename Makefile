# The commands people type. What they do is in scripts/ and CMakePresets.json.
#
#   make build      the release preset: build/release/bin/muster
#   make test       every test: release, ASan+UBSan, TSan, and tests against a real control plane
#   make test-tsan  its part under ThreadSanitizer: the client's tests; TSAN_TARGETS="client_test controller_test" for more
#   make test-life  random lives on a real control plane with fresh seeds, MUSTER_MINUTES=1; `make test` plays a minute
#   make audit      what Muster is linked with: versions, licences, and what Debian's security tracker knows, where it is reached
#   make explore    property tests with fresh seeds: SECONDS=60
#   make fuzz       libFuzzer on everything that reads foreign bytes: SECONDS=60 for each; TARGETS="pod watch" only these
#   make demo       a control plane, 64 simulated GPUs, Muster and the samples; KEEP=1 leaves it up
#   make demo-down  ends it
#   make image      a container image of Muster, from files of this machine: build/image/muster.tar
#   make test-node  Muster's image and real programs on a real node (kubelet, containerd); needs root
#   make test-helm  the chart by the real Helm: rendered, and a release's life on a control plane; builds Helm (minutes, once)
#   make test-upgrade  from an earlier version, built from the history, to this one and back; builds for minutes, once
#   make test-versions  schemas, install, jobs and services on earlier API servers: VERSIONS="1.34 1.35"; builds each for minutes, once
#   make test-gitops  what Flux and Argo CD make of every kind in every state, and their controllers on a live control plane;
#                   builds them first, which takes long, once
#   make test-page  the page of `kubectl muster ui` in a real browser; `make test` leaves the browser out where there is none
#   make test-pytorch  real PyTorch under torchrun on a real node; gigabytes of packages, not part of `make test`
#   make bench      all benchmarks; JSON=1 writes build/bench/NAME.json instead of printing tables
#   make lint       clang-format and clang-tidy; LINT_BASE=<commit>: clang-tidy only for files changed since
#   make deps       installs what all of these need, from Debian packages; they call it themselves
#   make clean      removes build/ (not the control plane, which is in ~/.cache/muster)
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
# Programs with threads in them.
TSAN_TARGETS ?= client_test

.PHONY: deps build controlplane test sanitizers-without-clock test-tsan test-life test-node test-helm test-upgrade test-versions test-gitops test-page test-pytorch image audit explore fuzz demo demo-down bench lint clean

deps:
	@scripts/install-deps.sh

# Configures anew if the presets are newer than the configuration: another compiler needs a fresh cache.
configure-%: deps
	@if [ ! build/$*/configure.log -nt CMakePresets.json ]; then echo "== configuring $*"; \
	  cmake --fresh --preset $* >build-$*.log 2>&1 || { cat build-$*.log; rm -f build-$*.log; exit 1; }; \
	  mv build-$*.log build/$*/configure.log; fi

build-%: configure-%
	@echo "== building $*"; start=$$SECONDS; ninja --quiet -C build/$* -j $(JOBS) $(TARGETS); \
	  echo "built in $$((SECONDS - start)) s"

build: build-release

# What needs a control plane runs with the release binary, but for one scenario that the operator with sanitizers plays.
build-asan: TARGETS = unit_tests muster
build-tsan: TARGETS = $(TSAN_TARGETS)

controlplane: deps
	@scripts/build-controlplane.sh >/dev/null

# Runs a command while the control plane is built, the first half of which waits for downloads. Fails if either does.
beside-controlplane = $(1) & plane=$$!; $(2) || { kill $$plane; exit 1; }; wait $$plane

# These steps run one after the other, whatever -j says: each uses all cores by itself. Tests on a control plane mostly
# wait. In the CPU time that they leave, the sanitizers' programs are compiled, and those are run that watch no clock.
test:
	@scripts/install-deps.sh --node --monitoring
	@$(call beside-controlplane,{ $(MAKE) controlplane; scripts/build-controlplane.sh --gpu-plugin >/dev/null; \
	  scripts/build-controlplane.sh --containerd >/dev/null; },\
	  $(MAKE) build-release TARGETS=release_tests)
	@failed=0; log=build/sanitizers.log; \
	  scripts/spare-cpu.sh $(MAKE) sanitizers-without-clock >$$log 2>&1 & spare=$$!; \
	  trap 'kill $$spare 2>/dev/null || true' EXIT; \
	  scripts/test.sh release || failed=1; \
	  wait $$spare || failed=1; cat $$log; \
	  scripts/test.sh asan tsan || failed=1; exit $$failed

sanitizers-without-clock: build-asan build-tsan
	@scripts/test.sh asan-without-clock

test-tsan: deps build-tsan
	@scripts/test.sh tsan

test-life: controlplane
	@$(MAKE) build-release TARGETS="muster muster_random_life_test"
	@build/release/bin/muster_random_life_test

image:
	@scripts/install-deps.sh --image
	@$(MAKE) build-release TARGETS=muster
	@scripts/make-image.sh

test-node:
	@scripts/install-deps.sh --node
	@$(MAKE) controlplane
	@scripts/build-controlplane.sh --gpu-plugin >/dev/null
	@scripts/build-controlplane.sh --containerd >/dev/null
	@$(MAKE) build-release TARGETS="muster muster_node_test"
	@ctest --test-dir build/release --output-on-failure --no-tests=error -L '^node$$'

test-helm: controlplane
	@scripts/build-controlplane.sh --helm >/dev/null
	@$(MAKE) build-release TARGETS="muster muster_helm_test"
	@ctest --test-dir build/release --output-on-failure --no-tests=error -L '^helm$$'

test-gitops: controlplane
	@for program in health argocd flux; do scripts/build-controlplane.sh --$$program >/dev/null; done
	@$(MAKE) build-release TARGETS="muster kubectl-muster muster_gitops_test muster_flux_test muster_argocd_test"
	@ctest --test-dir build/release --output-on-failure --no-tests=error -L '^gitops$$'

test-upgrade: controlplane
	@scripts/build-older.sh $$(tr '\n' ' ' <test/cluster/delivery/upgrade_test.cc | sed 's/.*kOlder = *"\([0-9a-f]*\)".*/\1/') >/dev/null
	@$(MAKE) build-release TARGETS="muster muster_upgrade_test"
	@ctest --test-dir build/release --output-on-failure --no-tests=error -L '^upgrade$$'

VERSIONS ?= 1.34 1.35
VERSION_TESTS = crds_cluster_test muster_install_test muster_slice_test muster_yield_test muster_project_test muster_service_test
test-versions: controlplane
	@$(MAKE) build-release TARGETS="muster $(VERSION_TESTS)"
	@for version in $(VERSIONS); do servers=$$(scripts/build-controlplane.sh --servers $$version); \
	  echo "== API server and controller manager of Kubernetes $$version"; \
	  MUSTER_SERVERS=$$servers ctest --test-dir build/release --output-on-failure --no-tests=error \
	    -R "^($$(echo $(VERSION_TESTS) | tr ' ' '|'))$$"; done

test-page: controlplane
	@scripts/install-page.sh >/dev/null
	@$(MAKE) build-release TARGETS="muster kubectl-muster muster_ui_test"
	@ctest --test-dir build/release --output-on-failure --no-tests=error -R '^muster_ui_test$$'

test-pytorch:
	@scripts/install-deps.sh --node
	@$(MAKE) controlplane
	@scripts/build-controlplane.sh --gpu-plugin >/dev/null
	@$(MAKE) build-release TARGETS="muster muster_pytorch_test"
	@MUSTER_PYTORCH=$$(scripts/install-pytorch.sh) build/release/bin/muster_pytorch_test

audit:
	@scripts/install-deps.sh --image
	@$(MAKE) build-release TARGETS=muster
	@mkdir -p build/image
	@scripts/make-sbom.py build/release/bin/muster audit >build/image/audit.spdx.json
	@scripts/audit.py build/image/audit.spdx.json

explore:
	@$(MAKE) build-release TARGETS="placement_properties simulation_time_test reconcilers_property_test"
	@scripts/explore.sh $(SECONDS)

fuzz:
	@$(MAKE) build-fuzz TARGETS=fuzz_programs
	@TARGETS="$(TARGETS)" scripts/fuzz.sh $(SECONDS)

demo:
	@$(MAKE) deps
	@$(call beside-controlplane,$(MAKE) controlplane,$(MAKE) build-release TARGETS="muster kubectl-muster testcluster")
	@scripts/demo.sh

demo-down:
	@scripts/demo.sh down

bench: controlplane build-release
	@shopt -s nullglob; mkdir -p build/bench; for program in build/release/bin/bench_*; do \
	  name=$${program##*/bench_}; echo "== $$name"; \
	  if [ -n "$(JSON)" ]; then $$program --json >build/bench/$$name.json; echo "build/bench/$$name.json"; \
	  else $$program; fi; done

lint:
	@scripts/install-deps.sh --lint
	@cmake --preset release -B build/lint -DMUSTER_PCH=OFF >/dev/null
	@scripts/lint.sh

clean:
	@if [ -d build/demo ]; then scripts/demo.sh down; fi
	@rm -rf build
