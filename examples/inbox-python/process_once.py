"""Process each message once, with the inbox service and Python's standard library only.

    waybill inbox --store memory:
    INBOX_URL=http://127.0.0.1:8080 python3 process_once.py

For each message: try-begin leases its key, the work is done while the lease is renewed, and
mark-processed says that it is done. What fails is released, so that the next delivery can try
again. The work may still happen twice: if the process dies after the work and before the mark.
"""

import hashlib
import json
import os
import re
import threading
import urllib.request

URL = os.environ.get("INBOX_URL", "http://127.0.0.1:8080")
TOKEN = os.environ.get("INBOX_TOKEN", "")
LEASE_SECONDS = 60


def ask(operation, **body):
    """Asks the service. Whatever is not an answer raises: without one nothing may be processed."""
    request = urllib.request.Request(
        f"{URL}/v1/inbox/{operation}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    if TOKEN:
        request.add_header("Authorization", f"Bearer {TOKEN}")
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)


def renew_until(done, lost, key, lease_id):
    """Renews after each third of the lease, until done is set; sets lost if it is too late."""
    while not done.wait(LEASE_SECONDS / 3):
        try:
            answer = ask("renew", key=key, leaseId=lease_id, leaseSeconds=LEASE_SECONDS)
        except (OSError, ValueError):
            continue  # the next one may come through in time
        if answer["status"] != "Acquired":
            lost.set()
            return


def lease_key(bus, group, event, source_in_key=False):
    """The key of an event, which consumers in all languages build alike (inbox/lease/testdata/leasekeys.json).

    event has the attributes of the CloudEvent: type, id, and idempotencykey and tenant if it has them.
    """
    tenant = event.get("tenant", "default")
    versioned = re.fullmatch("(.+)@v([0-9]+)", event["type"], re.DOTALL)
    alias = versioned[1] if versioned and int(versioned[2]) > 1 else event["type"]
    owner = [bus, group] if tenant == "default" else [tenant, bus, group]
    message = [alias, event.get("idempotencykey") or event["id"]]
    if source_in_key or tenant != "default":
        message.insert(0, event["source"] if source_in_key else "")

    def join(parts):
        return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts)

    key = join(owner + message)
    if len(key.encode()) > 512:
        key = join(owner) + ":%sha256=" + hashlib.sha256(join(message).encode()).hexdigest()
    return key


def process(key, work):
    """Runs work(token, lost) once for each key, and returns what became of it.

    work should stop when lost is set: somebody else has the message then. The token rises each
    time that the key changes hands; what work writes elsewhere can carry it, so that a writer
    that was taken for dead is refused there.
    """
    begun = ask("try-begin", key=key, owner=f"python {os.getpid()}", leaseSeconds=LEASE_SECONDS, maxAttempts=5)
    if begun["status"] != "Acquired":
        return begun["status"]  # Processed: acknowledge. Busy: have it again later. Exhausted: set it aside.
    lease = {"key": key, "leaseId": begun["leaseId"]}
    done, lost = threading.Event(), threading.Event()
    heart = threading.Thread(target=renew_until, args=(done, lost, key, begun["leaseId"]))
    heart.start()
    try:
        work(begun["token"], lost)
    except Exception:
        ask("release", **lease)
        raise
    finally:
        done.set()
        heart.join()
    return ask("mark-processed", **lease)["status"]


def main():
    def charge(token, lost):
        print(f"charged, with token {token}")

    def fail(token, lost):
        raise RuntimeError("the card is declined")

    key = lease_key("orders", "billing", {"type": "order-placed", "id": "order-1"})
    try:
        process(key, fail)
    except RuntimeError as error:
        print(f"released: {error}")
    print(process(key, charge))
    print(process(key, charge))  # the same message once more

    lease = ask("try-begin", key="by:hand")
    print(ask("renew", key="by:hand", leaseId=lease["leaseId"], leaseSeconds=90)["status"])
    print(ask("release", key="by:hand", leaseId=lease["leaseId"], uncounted=True)["status"])


if __name__ == "__main__":
    main()
