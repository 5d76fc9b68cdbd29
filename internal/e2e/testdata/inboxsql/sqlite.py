"""Handles the event on its standard input once, as docs/sql-contract.md has it for SQLite."""

import hashlib
import json
import sqlite3
import sys

message = json.load(sys.stdin)
event = message["event"]
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
db.execute(
    "INSERT INTO waybill_inbox_record (consumer, id, type, source, tenant, idempotency_key, payload_hash) VALUES (?, ?, ?, ?, ?, ?, ?)",
    ("billing", event["id"], event["type"], event["source"], event.get("tenant"), event.get("idempotencykey"),
     hashlib.sha256(message["body"].encode()).hexdigest()),
)
(outcome,) = db.execute("SELECT outcome FROM waybill_inbox_record").fetchone()
db.execute("ROLLBACK" if sys.argv[2:] else "COMMIT")
print(sys.argv[2] if sys.argv[2:] else outcome)
