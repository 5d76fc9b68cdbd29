#!/usr/bin/env bash
# Usage: scripts/services.sh up|down|status [postgres|pgbouncer|mariadb|redis|rabbitmq|nats ...]
#        scripts/services.sh browser|languages|interop|clusters|clocks
#        scripts/services.sh run COMMAND...
#
# Makes the servers that the tests need answer on 127.0.0.1:
#
#   postgres   5432  user postgres, no password, database test; 5442 next to a server that the tests are too much for
#   pgbouncer  6432  before it, pool mode transaction
#   mariadb    3306  user root, no password, database test; 3316 next to a server that the tests are too much for
#   redis      6379
#   rabbitmq   5672  user guest, password guest
#   nats       4222  with JetStream
#
# up    leaves a server alone whose port already answers; a missing one is installed with
#       apt-get and started with data of its own below $SERVICES_HOME, apart from the data
#       of the system's own services. Both need root.
# down  stops what up started, and nothing else.
#
# browser   installs Chromium and its driver, for the tests of the dashboard, unless they are there.
# languages installs Python and Node.js, for the examples in these languages, unless they are there.
# interop   installs the other projects' clients that examples/interop runs, unless they are there.
# clusters  installs what a Galera cluster of MariaDB needs, HAProxy before it, and what makes networks, unless they are there.
# clocks    installs libfaketime, for the tests that set a server's clock, unless it is there.
# run       runs a command, and tells it by POSTGRES_URL, MYSQL_URL and MYSQL_STORE where PostgreSQL and MariaDB are,
#           unless these are set.
#
# What up starts does not wait for the disk, unless SERVICES_DURABLE is set: the tests end processes, but never the machine.
#
# On systems other than Debian and its relatives use `docker compose up -d` instead.
set -euo pipefail

home=${SERVICES_HOME:-/var/lib/waybill-services}
all="postgres pgbouncer mariadb redis rabbitmq nats"

fast=eatmydata
[ -z "${SERVICES_DURABLE:-}" ] || fast=

say() { echo "services: $*"; }
complain() { echo "services: $*" >&2; }

# unfit_SERVICE says why the tests are too much for the server on the service's own port; it fails if they are not, or
# nothing answers. Each test makes tables and drops them: where nobody vacuums, PostgreSQL's catalogs have millions of
# dead rows within an hour, and where MariaDB waits for the disk, that is what most of the time goes to.
unfit_postgres() {
  local psql=(env PGCONNECT_TIMEOUT=10 psql -h 127.0.0.1 -p 5432 -U postgres -d postgres -qAt -c) connections autovacuum
  connections=$("${psql[@]}" 'SHOW max_connections' 2>/dev/null) && autovacuum=$("${psql[@]}" 'SHOW autovacuum') || return 1
  [ "$connections" -lt 200 ] || [ "$autovacuum" = off ] || return 1
  echo "max_connections = $connections and autovacuum = $autovacuum"
}

unfit_mariadb() {
  local pid
  [ -z "${SERVICES_DURABLE:-}" ] || return 1
  pid=$(head -n 1 "$home/mariadb/pid" 2>/dev/null) && grep -qz -- '^--port=3306$' "/proc/$pid/cmdline" 2>/dev/null && return 1 # ours
  (exec 3<>/dev/tcp/127.0.0.1/3306) 2>/dev/null || return 1
  echo "a server that waits for the disk"
}

postgres_port=5432 mariadb_port=3306 postgres_trouble="" mariadb_trouble=""
if [ -z "${POSTGRES_URL:-}" ] && postgres_trouble=$(unfit_postgres) && [ "$(id -u)" = 0 ]; then
  postgres_port=5442
fi
if [ -z "${MYSQL_URL:-}" ] && mariadb_trouble=$(unfit_mariadb) && [ "$(id -u)" = 0 ]; then
  mariadb_port=3316
fi

port() {
  case $1 in
    postgres) echo "$postgres_port" ;;
    pgbouncer) echo 6432 ;;
    mariadb) echo "$mariadb_port" ;;
    redis) echo 6379 ;;
    rabbitmq) echo 5672 ;;
    nats) echo 4222 ;;
    *) complain "unknown service $1, want one of: $all" && return 1 ;;
  esac
}

package() {
  case $1 in
    postgres) echo postgresql ;;
    pgbouncer) echo pgbouncer ;;
    *) echo "$1-server" ;;
  esac
}

# The user that the package creates and the server runs as.
user() {
  case $1 in
    pgbouncer) echo postgres ;;
    mariadb) echo mysql ;;
    *) echo "$1" ;;
  esac
}

# The server's binary, or nothing if it is not installed.
binary() {
  case $1 in
    postgres) find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -n 1 ;;
    pgbouncer) command -v pgbouncer || true ;;
    mariadb) command -v mariadbd || true ;;
    rabbitmq) find /usr/lib/rabbitmq/bin -name rabbitmq-server 2>/dev/null ;;
    *) command -v "$1-server" || true ;;
  esac
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$(port "$1")") 2>/dev/null; }

# as SERVICE COMMAND... runs a command as the service's user.
as() {
  local service=$1
  shift
  setpriv --reuid="$(user "$service")" --regid="$(user "$service")" --init-groups \
    env HOME="$home/$service" "$@"
}

# launch SERVICE COMMAND... runs a server in the background, detached from this terminal.
launch() {
  local service=$1
  shift
  as "$service" setsid "$@" </dev/null >>"$home/$service/log" 2>&1 &
}

start_postgres() {
  local dir=$home/postgres bin
  bin=$(dirname "$(binary postgres)")
  if [ ! -d "$dir/data" ]; then
    as postgres "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 >>"$dir/log" 2>&1
  fi
  launch postgres $fast "$bin/postgres" -D "$dir/data" -p "$(port postgres)" \
    -c listen_addresses=127.0.0.1 -c unix_socket_directories="$dir" \
    -c external_pid_file="$dir/pid" -c max_connections=300 -c wal_level=logical
}

prepare_postgres() {
  local psql=(psql -h 127.0.0.1 -p "$(port postgres)" -U postgres -d postgres -qAt -c)
  retry "${psql[@]}" 'SELECT 1' >/dev/null
  [ -n "$("${psql[@]}" "SELECT 1 FROM pg_database WHERE datname = 'test'")" ] ||
    "${psql[@]}" 'CREATE DATABASE test'
}

# Every program gets to the server as postgres, by few sessions of the server. A start-up
# parameter that is not listed here is refused.
start_pgbouncer() {
  local dir=$home/pgbouncer
  cat >"$dir/pgbouncer.ini" <<-END
	[databases]
	* = host=127.0.0.1 port=$(port postgres) user=postgres
	[pgbouncer]
	listen_addr = 127.0.0.1
	listen_port = $(port pgbouncer)
	unix_socket_dir =
	auth_type = any
	pool_mode = transaction
	default_pool_size = 20
	max_client_conn = 500
	ignore_startup_parameters = extra_float_digits, synchronous_commit
	log_connections = 0
	log_disconnections = 0
	pidfile = $dir/pid
	END
  launch pgbouncer "$(binary pgbouncer)" "$dir/pgbouncer.ini"
}

# leads_there fails if our PgBouncer is one to another server.
leads_there() {
  local ini=$home/pgbouncer/pgbouncer.ini
  [ ! -e "$ini" ] || grep -q "port=$postgres_port " "$ini"
}

prepare_pgbouncer() { retry psql -h 127.0.0.1 -p "$(port pgbouncer)" -U postgres -d postgres -qAt -c 'SELECT 1'; }

start_mariadb() {
  local dir=$home/mariadb
  if [ ! -d "$dir/data" ]; then
    as mariadb mariadb-install-db --datadir="$dir/data" \
      --auth-root-authentication-method=normal >>"$dir/log" 2>&1
  fi
  launch mariadb $fast "$(binary mariadb)" --datadir="$dir/data" --port="$(port mariadb)" \
    --bind-address=127.0.0.1 --socket="$dir/socket" --pid-file="$dir/pid" --max-connections=300
}

prepare_mariadb() {
  retry mariadb -h 127.0.0.1 -P "$(port mariadb)" -u root -e 'CREATE DATABASE IF NOT EXISTS test'
}

start_redis() {
  launch redis "$(binary redis)" --bind 127.0.0.1 --port "$(port redis)" \
    --pidfile "$home/redis/pid" --dir "$home/redis" --save "" --appendonly no
}

start_rabbitmq() {
  local dir=$home/rabbitmq
  launch rabbitmq env ERL_EPMD_ADDRESS=127.0.0.1 \
    RABBITMQ_NODENAME=waybill@localhost RABBITMQ_PID_FILE="$dir/pid" \
    RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$(port rabbitmq)" \
    RABBITMQ_MNESIA_BASE="$dir/data" RABBITMQ_LOG_BASE="$dir" \
    RABBITMQ_ENABLED_PLUGINS_FILE="$dir/plugins" \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}' \
    $fast "$(binary rabbitmq)"
}

start_nats() {
  launch nats "$(binary nats)" -a 127.0.0.1 -p "$(port nats)" -js -sd "$home/nats/data" -P "$home/nats/pid"
}

# retry COMMAND... repeats a command for up to 20 seconds until it succeeds.
retry() {
  local errors
  for _ in $(seq 100); do
    errors=$("$@" 2>&1 >/dev/null) && return 0
    sleep 0.2
  done
  complain "$errors"
  return 1
}

# ready SERVICE waits for a started server and prepares it.
ready() {
  local service=$1 begin=$SECONDS
  until answers "$service"; do
    if [ $((SECONDS - begin)) -gt 60 ]; then
      complain "$service did not open port $(port "$service") in 60 s; the end of $home/$service/log:"
      tail -n 20 "$home/$service/log" >&2
      return 1
    fi
    sleep 0.1
  done
  if declare -F "prepare_$service" >/dev/null; then
    "prepare_$service"
  fi
  say "$service is ready on port $(port "$service")"
}

# require_root WHAT ends the script unless it runs as root on a system with apt-get.
require_root() {
  if ! command -v apt-get >/dev/null; then
    complain "$1; without apt-get this script can't help, run: docker compose up -d"
    exit 1
  fi
  if [ "$(id -u)" != 0 ]; then
    complain "$1; run this script as root, or: docker compose up -d"
    exit 1
  fi
}

# install_packages PACKAGE... installs packages without letting them start servers by themselves.
install_packages() {
  local log=$home/apt.log policy=/usr/sbin/policy-rc.d
  say "installing $*"
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  export DEBIAN_FRONTEND=noninteractive
  if ! { apt-get update -qq && apt-get install -y -qq -o DPkg::Lock::Timeout=300 \
    --no-install-recommends "$@"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    exit 1
  fi
}

browser() {
  if command -v chromedriver >/dev/null; then
    say "chromedriver is there"
    return
  fi
  require_root "not installed: chromedriver"
  install -d "$home"
  install_packages chromium chromium-driver fonts-dejavu-core
}

languages() {
  local missing=()
  command -v curl >/dev/null || missing+=(curl) # the tutorial types it
  command -v python3 >/dev/null || missing+=(python3)
  command -v node >/dev/null || missing+=(nodejs)
  if [ ${#missing[@]} -eq 0 ]; then
    say "curl, python3 and node are there"
    return
  fi
  require_root "not installed: ${missing[*]}"
  install -d "$home"
  install_packages "${missing[@]}"
}

clocks() {
  if compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null; then
    say "libfaketime is there"
    return
  fi
  require_root "not installed: libfaketime"
  install -d "$home"
  install_packages libfaketime
}

interop() {
  local missing=() dir
  dir=$(dirname "$0")/../examples/interop
  command -v kcat >/dev/null || missing+=(kcat)
  command -v npm >/dev/null || missing+=(npm)
  if [ ${#missing[@]} -gt 0 ]; then
    require_root "not installed: ${missing[*]}"
    install -d "$home"
    install_packages "${missing[@]}"
  fi
  if [ "$dir/node_modules/.package-lock.json" -nt "$dir/package-lock.json" ]; then
    say "the clients for examples/interop are there"
    return
  fi
  say "installing the clients for examples/interop"
  (cd "$dir" && npm ci --no-audit --no-fund --loglevel=error)
}

clusters() {
  local missing=()
  [ -e /usr/lib/galera/libgalera_smm.so ] || missing+=(galera-4)
  command -v rsync >/dev/null || missing+=(rsync)
  command -v haproxy >/dev/null || missing+=(haproxy)
  command -v ip >/dev/null || missing+=(iproute2)
  if [ ${#missing[@]} -eq 0 ]; then
    say "galera-4, rsync, haproxy and iproute2 are there"
    return
  fi
  require_root "not installed: ${missing[*]}"
  install -d "$home"
  install_packages "${missing[@]}"
}

up() {
  local service down=() missing=() waits=() rc=0 pid
  if [ "$postgres_port" != 5432 ]; then
    say "postgres on port 5432 has $postgres_trouble; the tests get a server of their own"
  elif [ -n "$postgres_trouble" ]; then
    complain "postgres has $postgres_trouble; the tests need 200 and on, or fail now and then"
  fi
  [ "$mariadb_port" = 3306 ] || say "mariadb on port 3306 is $mariadb_trouble; the tests get a server of their own"
  for service; do
    [ "$service" != pgbouncer ] || leads_there || down pgbouncer
    if answers "$service"; then
      say "$service already answers on port $(port "$service")"
      continue
    fi
    down+=("$service")
    [ -n "$(binary "$service")" ] || missing+=("$(package "$service")")
  done
  [ ${#down[@]} -gt 0 ] || return 0
  require_root "not running: ${down[*]}"
  install -d "$home"
  [ -z "$fast" ] || command -v eatmydata >/dev/null || missing+=(eatmydata)
  [ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
  for service in "${down[@]}"; do
    install -d -m 750 -o "$(user "$service")" -g "$(user "$service")" "$home/$service"
    rm -f "$home/$service/pid" # of one that was killed; PgBouncer refuses to start if any process has that id
    "start_$service"
  done
  for service in "${down[@]}"; do
    ready "$service" &
    waits+=($!)
  done
  for pid in "${waits[@]}"; do wait "$pid" || rc=1; done
  return $rc
}

# down stops servers by the process ids that they wrote, unless the id is another user's
# process by now. PostgreSQL takes INT for a stop that does not wait for its clients; TERM is
# that for the others.
down() {
  local service pid signal
  for service; do
    pid=$(head -n 1 "$home/$service/pid" 2>/dev/null) || continue
    signal=TERM
    [ "$service" != postgres ] || signal=INT
    if [ "$(stat -c %U "/proc/$pid" 2>/dev/null)" = "$(user "$service")" ] && kill "-$signal" "$pid"; then
      while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
      say "stopped $service"
    fi
    rm -f "$home/$service/pid"
  done
}

status() {
  local service rc=0
  for service; do
    if answers "$service"; then
      say "$service answers on port $(port "$service")"
    else
      say "$service is down" && rc=1
    fi
  done
  return $rc
}

# run COMMAND... runs a command.
run() {
  export POSTGRES_URL=${POSTGRES_URL:-postgres://postgres@127.0.0.1:$postgres_port/test?sslmode=disable}
  export MYSQL_URL=${MYSQL_URL:-root@tcp(127.0.0.1:$mariadb_port)/}
  export MYSQL_STORE=${MYSQL_STORE:-mariadb://root@127.0.0.1:$mariadb_port/test}
  exec "$@"
}

command=${1:-}
[ $# -eq 0 ] || shift
if [ "$command" = run ]; then
  run "$@"
fi
# shellcheck disable=SC2086 # the list is meant to be split
[ $# -gt 0 ] || set -- $all
for service; do port "$service" >/dev/null; done
case $command in
  browser | languages | interop | clusters | clocks) "$command" ;;
  up | down | status) "$command" "$@" ;;
  *)
    sed -n '2s/^# //p' "$0" >&2
    exit 2
    ;;
esac
