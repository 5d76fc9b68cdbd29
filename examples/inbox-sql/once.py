"""Handles each message once, by docs/sql-contract.md, with any connection of the DB-API (psycopg)."""

import hashlib

ASK = "SELECT waybill.inbox_record(%s, %s, %s, %s, %s, %s, %s)"

def once(db, consumer, event, body, handle):
    """Calls handle(cursor, event, body) unless the consumer has handled the event, and returns what the inbox says."""
    cursor = db.cursor()
    try:
        cursor.execute(ASK, (consumer, event["id"], event["type"], event["source"], event.get("tenant"),
                             event.get("idempotencykey"), hashlib.sha256(body).hexdigest()))
        outcome = cursor.fetchone()[0]
        if outcome == "new":
            handle(cursor, event, body)
        db.commit()
        return outcome
    except BaseException:
        db.rollback()
        raise
