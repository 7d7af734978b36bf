#!/usr/bin/env bash
# What the tests need beside Go and git (Debian packages). Outside CI a test that misses one skips and says which.
set -euo pipefail
missing=()
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
need gcc gcc            # the race detector
need mkfs.ext4 e2fsprogs
need mkfs.xfs xfsprogs
need losetup mount
need setpriv util-linux
need dig bind9-dnsutils   # resolvers as clients of the name server
need musl-gcc musl-tools
[ "${#missing[@]}" -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
	echo "to run every test, install: ${missing[*]}" >&2
	exit 0
fi
apt-get -o DPkg::Lock::Timeout=300 update -qq
DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}"
