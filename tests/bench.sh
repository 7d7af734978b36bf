#!/usr/bin/env bash
# Every benchmark of the project, one after the other, with what the machine was doing. Ratios are what counts.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "machine: $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $(go version)"
bench() { go test -run '^$' -bench . -benchmem -timeout 60m -p 1 "$@" | grep -v 'no test files'; }
# The collector is set as the controller sets it for itself (cmd/astraeus/internal/control).
GOGC=400 GOMEMLIMIT=900MiB bench ./planner
bench $(go list ${BENCH_PACKAGES:-./...} | grep -v '/planner$')
