#!/bin/sh
# Publishes one CloudEvent in binary mode to a topic with kcat.
#
#   publish.sh host:port topic
set -eu
printf '%s' 'order-1|{"total":12}' | kcat -P -b "$1" -t "$2" -K '|' -X acks=all \
	-H ce_specversion=1.0 -H ce_id=kcat-1 -H ce_source=kcat -H ce_type=order.created \
	-H content-type=application/json
