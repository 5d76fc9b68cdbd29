#!/usr/bin/env bash
# Usage: VERSION=v0.1.0 [SNAPSHOT=1] [OUT=dist] [PLATFORMS="linux/amd64 …"] scripts/release.sh
#
# Builds what a release consists of, from the last commit, into OUT: for each platform an archive of the program and its
# bill of materials (CycloneDX), for Linux an image, and SHA256SUMS. It pushes nothing: it prints how to tag and publish.
#
# The program is built in a clone that has the tag, so "waybill version" shows tag and commit as it does for everybody who
# builds that tag. The same commit, version of Go and certificates give the same bytes, anywhere.
#
# SNAPSHOT makes a version such as v0.1.0-snapshot.g0123456789ab and does not check what a release needs. CYCLONEDX is
# the program cyclonedx-gomod, which the Makefile builds.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${CYCLONEDX:?run make release}"
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}
version=${VERSION:-}
commit=$(git rev-parse HEAD)
root=$PWD

fail() { echo "release: $*" >&2; exit 1; }

# The modules that users import, by directory, "." for the main one.
modules() { git ls-files 'go.mod' '*/go.mod' | xargs -n 1 dirname | grep -vE '^(bench|examples|scripts)(/|$)'; }

# tag DIRECTORY prints the tag of the module there.
tag() { [ "$1" = . ] && echo "$version" || echo "$1/$version"; }

check() {
  [ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed"
  grep -qF "## [${version#v}]" CHANGELOG.md || fail "CHANGELOG.md has no section [${version#v}]"
  local module at
  for module in $(modules); do
    at=$(git rev-parse -q --verify "refs/tags/$(tag "$module")^{commit}" || true)
    [ -z "$at" ] || [ "$at" = "$commit" ] || fail "the tag $(tag "$module") is at another commit, $at"
    [ "$module" = . ] || grep -qE "github.com/waybill-go/waybill $version\$" "$module/go.mod" ||
      fail "$module/go.mod does not require github.com/waybill-go/waybill $version"
  done
}

[ -z "${SNAPSHOT:-}" ] || version=${version:-v0.0.0}-snapshot.g${commit:0:12}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || fail "VERSION is ${version:-not given}; it is a version such as v0.1.0"
[ -n "${SNAPSHOT:-}" ] || check

mkdir -p "${OUT:=dist}"
out=$(cd "$OUT" && pwd)
[ -z "$(ls -A "$out")" ] || fail "$OUT is not empty"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q --shared --no-tags --no-checkout "$root" "$work/source"
cd "$work/source"
git checkout -q --detach "$commit"
git tag "$version"
seconds=$(git show -s --format=%ct "$commit")
created=$(date -u -d "@$seconds" +%Y-%m-%dT%H:%M:%SZ)

for platform in $platforms; do
  os=${platform%/*} arch=${platform#*/}
  name=waybill_${version}_${os}_$arch
  program=$work/$name/waybill
  [ "$os" != windows ] || program=$program.exe
  echo "release: $name"
  GOOS=$os GOARCH=$arch CGO_ENABLED=0 GOFLAGS='' GOWORK=off \
    go build -trimpath -buildvcs=true -ldflags='-s -w' -o "$program" ./cmd/waybill
  # git gives every file the time of the commit, and no owner.
  format=tar.gz
  [ "$os" != windows ] || format=zip
  TZ=UTC git -c tar.umask=022 archive --format=$format --prefix="$name/" --add-file="$program" \
    -o "$out/$name.$format" "$version" LICENSE README.md CHANGELOG.md
  "$CYCLONEDX" bin -json -noserial -std -version "$version" -output "$work/bill.json" "$program" 2>"$work/log" ||
    { cat "$work/log" >&2; exit 1; }
  sed "s/\"timestamp\": \"[^\"]*\"/\"timestamp\": \"$created\"/" "$work/bill.json" >"$out/$name.cdx.json"
  [ "$os" != linux ] || scripts/image.sh "$program" "$arch" "$version" "$commit" "$seconds" "$out/${name}_image.tar"
done
(cd "$out" && LC_ALL=C sha256sum waybill_* >SHA256SUMS && ls -l)

[ -z "${SNAPSHOT:-}" ] || exit 0
cd "$root"
tags=$(for module in $(modules); do tag "$module"; done)
echo
echo "Nothing is published yet. To publish:"
for name in $tags; do echo "  git tag -a -m $name $name $commit"; done
echo "  git push origin" $tags
