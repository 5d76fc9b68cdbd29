#!/bin/sh
# Reads one message of a topic from its beginning with kcat, and prints it as JSON: its key, its
# payload, and its headers as a list of names and values.
#
#   read.sh host:port topic
set -eu
exec kcat -C -q -b "$1" -t "$2" -o beginning -c 1 -J
