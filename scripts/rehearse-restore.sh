#!/usr/bin/env bash
# Usage: scripts/rehearse-restore.sh [WAYBILL]
#
# Rehearses the runbook "restore from backup" on a scratch cluster of PostgreSQL: base backup,
# archived WAL, and a restore to a point before messages were published. Shows what waybill
# says then, and fails unless every message after the restore point is published again, under
# the id that it had. WAYBILL is the program; it is built if none is given. Needs the binaries
# of PostgreSQL, a NATS server ($NATS_URL, by default the one of "make services"), and either
# the user postgres or root.
set -euo pipefail

waybill=${1:-}
nats=${NATS_URL:-nats://127.0.0.1:4222}
dir=$(mktemp -d /tmp/waybill-restore.XXXXXX)
bin=$(dirname "$(find /usr/lib/postgresql -path '*/bin/postgres' | sort -V | tail -n 1)")
stream=restore-$RANDOM$RANDOM

# as_postgres COMMAND... runs a command as the user that may run a server.
as_postgres() {
  if [ "$(id -u)" = 0 ]; then
    (cd "$dir" && setpriv --reuid=postgres --regid=postgres --init-groups "$@")
  else
    "$@"
  fi
}

free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 10000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port" && return; }
  done
}

stop() {
  local cluster
  for cluster in before after; do
    [ ! -d "$dir/$cluster" ] || as_postgres "$bin/pg_ctl" -D "$dir/$cluster" -m immediate stop >/dev/null 2>&1 || true
  done
  rm -rf "$dir"
}
trap stop EXIT

# start CLUSTER PORT
start() {
  as_postgres "$bin/pg_ctl" -D "$dir/$1" -l "$dir/$1.log" -w -t 120 \
    -o "-p $2 -c listen_addresses=127.0.0.1 -c unix_socket_directories=$dir" start >/dev/null
}

sql() { psql -h 127.0.0.1 -p "$1" -U postgres -d postgres -v ON_ERROR_STOP=1 -qAtc "$2"; }

# show COMMAND... prints a command of waybill and what it says.
show() {
  echo
  echo "\$ waybill $*"
  "$waybill" "$@"
}

# relay lets a relay publish until nothing is pending, and stops it.
relay() {
  local pid tries=0
  "$waybill" relay --log-level error >"$dir/relay.out" &
  pid=$!
  until [ "$(sql "$1" "SELECT count(*) FROM waybill.messages WHERE status <> 'Published'")" = 0 ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "nothing is published" >&2 && exit 1; }
    sleep 0.1
  done
  kill -INT "$pid"
  wait "$pid"
  cat "$dir/relay.out"
}

if [ -z "$waybill" ]; then
  waybill=$dir/waybill
  go build -o "$waybill" ./cmd/waybill
fi
chmod 755 "$dir"
[ "$(id -u)" != 0 ] || chown postgres "$dir"
before=$(free_port)
after=$(free_port)
export WAYBILL_BROKER=$nats WAYBILL_NATS_STREAM=$stream WAYBILL_NATS_SUBJECT_PREFIX=$stream.

echo "── A server with archived WAL, tables, and three messages that are published."
as_postgres "$bin/initdb" -D "$dir/before" -U postgres -A trust -E UTF8 --locale=C.UTF-8 >/dev/null
as_postgres mkdir "$dir/wal"
as_postgres tee -a "$dir/before/postgresql.conf" >/dev/null <<END
archive_mode = on
archive_command = 'cp %p $dir/wal/%f'
END
start before "$before"
export WAYBILL_STORE="postgres://postgres@127.0.0.1:$before/postgres?sslmode=disable"
"$waybill" migrate --source shop
sql "$before" "INSERT INTO waybill.outbox (id, topic, payload) SELECT 'early-' || n, 'orders', '{}' FROM generate_series(1, 3) n"
relay "$before"

echo "── A base backup; then three more messages are enqueued, and only after the restore point published."
as_postgres "$bin/pg_basebackup" -h 127.0.0.1 -p "$before" -U postgres -D "$dir/after" -c fast
sql "$before" "INSERT INTO waybill.outbox (id, topic, payload) SELECT 'late-' || n, 'orders', '{}' FROM generate_series(1, 3) n"
sql "$before" "SELECT pg_create_restore_point('before the accident')" >/dev/null
relay "$before"
sql "$before" "SELECT pg_switch_wal()" >/dev/null
as_postgres "$bin/pg_ctl" -D "$dir/before" -m fast -w stop >/dev/null # the last WAL is archived

echo "── The accident: a restore to the point before they were published."
as_postgres tee -a "$dir/after/postgresql.conf" >/dev/null <<END
restore_command = 'cp $dir/wal/%f %p'
recovery_target_name = 'before the accident'
recovery_target_action = promote
archive_mode = off
END
as_postgres touch "$dir/after/recovery.signal"
start after "$after"
export WAYBILL_STORE="postgres://postgres@127.0.0.1:$after/postgres?sslmode=disable"
until [ "$(sql "$after" 'SELECT pg_is_in_recovery()')" = f ]; do sleep 0.1; done
show doctor
show outbox stats
show outbox show late-1
again=$(sql "$after" "SELECT string_agg(id, ' ' ORDER BY id) FROM waybill.messages WHERE status = 'Pending'")
[ "$again" = "late-1 late-2 late-3" ] || { echo "pending are: $again" >&2 && exit 1; }

echo
echo "── A relay publishes them again, under the same ids; the inbox of a consumer that was not restored knows them."
relay "$after"
show outbox stats
