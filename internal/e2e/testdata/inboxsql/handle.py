"""Handles the event on its standard input with the program for docs/sql-contract.md, through psql."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.environ["PROGRAMS"])
import once  # noqa: E402


class Psql:
    """A connection, and a cursor, of the DB-API, for one session of psql."""

    def __init__(self, url):
        self.session = subprocess.Popen(["psql", url, "-qAtX"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.execute("BEGIN")

    def cursor(self):
        return self

    def execute(self, statement, args=()):
        quoted = ("NULL" if arg is None else "'" + arg.replace("'", "''") + "'" for arg in args)
        print(statement % tuple(quoted) + ";\n\\echo end :SQLSTATE", file=self.session.stdin, flush=True)
        self.rows = []
        for line in self.session.stdout:
            if line.startswith("end "):
                break
            self.rows.append([line.rstrip("\n")])
        if line != "end 00000\n":
            raise RuntimeError(line)

    def fetchone(self):
        return self.rows[0]

    def commit(self):
        self.execute("COMMIT")

    def rollback(self):
        self.execute("ROLLBACK")


def work(cursor, event, body):
    cursor.execute("INSERT INTO charges VALUES (%s)", (event["id"],))
    if sys.argv[2:]:
        raise ValueError(sys.argv[2])


message = json.load(sys.stdin)
try:
    print(once.once(Psql(sys.argv[1]), "billing", message["event"], message["body"].encode(), work))
except ValueError as error:
    print(error)
