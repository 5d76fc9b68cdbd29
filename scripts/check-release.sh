#!/usr/bin/env bash
# Usage: scripts/check-release.sh [DIRECTORY]
#
# Builds a snapshot for Linux on this processor twice, the second time from an empty build cache, and fails unless both
# have the same checksums, the program shows tag and commit, and the image is one that umoci takes. It runs the program from
# the image's file system as the image's user, for which it must be root.
#
# CACHE is another build cache for the second build; with the usual one only what follows the compiler is done twice.
# With DIRECTORY it checks the release in there instead, without building it again.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
fail() { echo "check-release: $*" >&2; exit 1; }

release=${1:-}
if [ -z "$release" ]; then
  export SNAPSHOT=1 PLATFORMS=linux/$(go env GOARCH)
  OUT=$work/first scripts/release.sh
  OUT=$work/second GOCACHE=${CACHE:-$work/cache} scripts/release.sh >/dev/null
  diff "$work/first/SHA256SUMS" "$work/second/SHA256SUMS" || fail "two builds of one commit differ"
  release=$work/first
fi

(cd "$release" && sha256sum --check --quiet SHA256SUMS)
archive=$(ls "$release"/waybill_*_linux_"$(go env GOARCH)".tar.gz)
name=$(basename "$archive" .tar.gz)
version=${name#waybill_} && version=${version%%_*}

tar -xf "$archive" -C "$work"
shown=$("$work/$name/waybill" version)
[[ $shown == "waybill $version commit $(git rev-parse HEAD) "* ]] || fail "the program shows $shown"
for bill in "$release"/*.cdx.json; do
  grep -q '"purl": "pkg:golang/github.com/spf13/cobra@' "$bill" || fail "$bill lacks a module of the program"
done

# Each blob of the image is named after what it holds, and the configuration is what docs/deploy.md says.
mkdir "$work/layout" && tar -xf "$release/${name}_image.tar" -C "$work/layout"
(cd "$work/layout/blobs/sha256" && for blob in *; do echo "$blob  $blob"; done | sha256sum --check --quiet)
for want in '"User": "65532:65532"' '"Entrypoint": ["/usr/local/bin/waybill"]' "\"architecture\": \"$(go env GOARCH)\""; do
  grep -qF "$want" "$work"/layout/blobs/sha256/* || fail "the image's configuration lacks $want"
done

umoci unpack --rootless --image "$work/layout:$version" "$work/bundle"
files=$work/bundle/rootfs
grep -q 'BEGIN CERTIFICATE' "$files/etc/ssl/certs/ca-certificates.crt" || fail "the image has no certificates"
grep -aq Europe/Berlin "$files/usr/local/bin/waybill" || fail "the program has no time zones"

# inside COMMAND... runs a command of the image as its user.
inside() { chroot --userspec=65532:65532 "$files" "$@"; }
[ "$(inside /usr/local/bin/waybill version)" = "$shown" ] || fail "the image has another program"
inside /usr/local/bin/waybill migrate --store sqlite:/tmp/w.db
echo "check-release: $shown"
ls -l "$release" | awk 'NR > 1 { print $5, $9 }'
