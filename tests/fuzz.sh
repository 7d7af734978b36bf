#!/usr/bin/env bash
# Each fuzz target in turn for the given time (go test runs one at a time).
set -euo pipefail
cd "$(dirname "$0")/.."
time="${1:-20s}"
grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do
	package="./$(dirname "$file")"
	grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | sed 's/func //' | while read -r target; do
		echo "== $package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"
	done
done
