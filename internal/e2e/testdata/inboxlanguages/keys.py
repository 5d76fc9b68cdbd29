"""Compares the keys of the example with those of the file, and says how many it compared."""

import json
import sys

from process_once import lease_key

cases = json.load(open(sys.argv[1], encoding="utf-8"))
for case in cases:
    key = lease_key(case["bus"], case["group"], case["event"], case.get("sourceInKey", False))
    if key != case["key"]:
        sys.exit(f"{case['name']}: {key}, want {case['key']}")
print(f"{len(cases)} keys")
