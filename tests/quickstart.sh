#!/usr/bin/env bash
# The README's first command as a newcomer gives it: in a fresh clone, as an ordinary user without root.
set -euo pipefail
cd "$(dirname "$0")/.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
git clone -q . "$work/astraeus"
if [ "$(id -u)" -eq 0 ]; then
	# Any uid that owns nothing here; modules are read from this user's cache.
	chmod 755 "$work"
	chown -R 65534:65534 "$work"
	as=(setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$work/home")
	mkdir -p "$work/home" && chown 65534:65534 "$work/home"
	# The build is done once as root, so that the ordinary user needs no network: what is tried is running.
	make -s -C "$work/astraeus" build
	chown -R 65534:65534 "$work"
	(cd "$work/astraeus" && "${as[@]}" make -s -o build run)
else
	make -s -C "$work/astraeus" run
fi
