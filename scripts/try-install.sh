#!/usr/bin/env bash
# Usage: scripts/try-install.sh VERSION
#
# Shows that "go install" and "go get" work once VERSION is tagged, before it is. It makes a module proxy of files, below
# a temporary directory, from a clone that has the tags: the go command itself packs the modules, as public proxies do.
# Then, knowing no other source of Waybill, it installs the program, and builds the README's first program and one with
# SignalR as modules of their own.
#
# What these depend on comes from DEPENDENCIES, by default what "go env GOPROXY" names. To do without a network after a
# build of the repository: GOSUMDB=off DEPENDENCIES=file://$(go env GOMODCACHE)/cache/download.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?usage: scripts/try-install.sh VERSION}
module=github.com/waybill-go/waybill
dependencies=${DEPENDENCIES:-$(go env GOPROXY)}
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# show COMMAND... prints a command and runs it.
show() { echo "\$ $*"; "$@"; }

git clone -q --bare --no-tags "$root" "$work/repository"
for tag in "$version" "broker/signalrbroker/$version"; do
  git -C "$work/repository" tag "$tag" "$(git rev-parse HEAD)"
done
export GONOSUMDB=$module GOFLAGS=-modcacherw GOWORK=off CGO_ENABLED=0
cd "$work"
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=url.file://$work/repository.insteadOf GIT_CONFIG_VALUE_0=https://$module \
  GOPROXY=direct GOMODCACHE=$work/made go mod download "$module@$version" "$module/broker/signalrbroker@$version"
proxy=$work/made/cache/download
find "$proxy" -name '*.zip' -printf "%s bytes  $module… %f\n"

export GOPROXY=file://$proxy,$dependencies GOMODCACHE=$work/modules GOBIN=$work/bin GOFLAGS='-modcacherw -trimpath'
show go install "$module/cmd/waybill@$version"
show "$work/bin/waybill" version | tee version
grep -qF "waybill $version " version

# try NAME MODULE builds the program in the directory NAME as a user of MODULE would.
try() {
  cd "$work/$1"
  go mod init "example.com/$1" 2>/dev/null
  show go get "$2@$version"
  go get .
  show go build -o program .
}

mkdir "$work/first" "$work/signalr"
cp "$root/examples/first/main.go" "$work/first"
printf 'package main\n\nimport _ "%s"\n\nfunc main() {}\n' "$module/broker/signalrbroker" >"$work/signalr/main.go"
try first "$module"
try signalr "$module/broker/signalrbroker"
