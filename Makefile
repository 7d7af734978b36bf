# The entry points of the project. Everything runs with Go and git alone; what a
# full run needs beside them is installed by tests/setup.sh.
GO     ?= go
LAB    ?= .lab

.PHONY: run lab test e2e sim bench bench-dns fuzz lint build
# The race detector needs a C compiler; CI has one and insists.
RACE   := $(if $(CI),-race,$(shell command -v $(or $(CC),cc) >/dev/null 2>&1 && echo -race))
GOTEST  = $(GO) test $(RACE) -timeout 30m

# `astraeus version` names the commit, also where the source has no history.
COMMIT ?= $(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null)

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.commit=$(COMMIT)' -o bin/astraeus ./cmd/astraeus

## run: the whole cluster of examples/repo on this computer, once, without root
run: build
	./bin/astraeus lab --once --repo examples/repo --dir $(LAB)

## lab: the same, following edits of the files until Ctrl-C
lab: build
	./bin/astraeus lab --repo examples/repo --dir $(LAB)

## test: everything that can be tested on this machine, with the race detector
test:
	$(GOTEST) ./...

## e2e: the end-to-end tests alone
e2e:
	$(GOTEST) -count=1 ./tests/... ./cmd/...

## sim: the simulation, or with SEED=n one seed of it with every move
sim:
	$(GO) test -count=1 -v -run TestSimulation ./tests/sim $(if $(SEED),-args -seed $(SEED))

## bench: the benchmarks behind every figure in docs/performance.md
bench:
	tests/bench.sh

## bench-dns: the name server beside CoreDNS, Knot, NSD and an echo, in one run (needs dnsperf)
bench-dns:
	BENCH_DNS=1 $(GO) test -run '^$$' -bench '^BenchmarkSideBySide$$' -benchtime 1x -timeout 30m ./dnszone

## fuzz: each fuzz target for FUZZTIME
FUZZTIME ?= 20s
fuzz:
	tests/fuzz.sh $(FUZZTIME)

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
