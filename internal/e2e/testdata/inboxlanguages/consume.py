"""Handles the event on its standard input, if nobody of bus and group "orders", "billing" has."""

import json
import sys

from process_once import lease_key, process

event = json.load(sys.stdin)
print(process(lease_key("orders", "billing", event), lambda token, lost: print("handled")))
