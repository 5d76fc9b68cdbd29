#!/usr/bin/env bash
# Usage: scripts/current.sh up|down|test
#
# The newest servers that Debian has, in addition to those of scripts/services.sh. They live below
# $CURRENT_HOME, in a system of their own that debootstrap makes of Debian unstable, and answer
# on 127.0.0.1:
#
#   postgres   5433  user postgres, no password, database test
#   mysql      3307  user root, no password, database test
#   redis      6380
#   valkey     6381
#   rabbitmq   5673  user guest, password guest
#   nats       4223  with JetStream
#
# up    makes the system unless it is there (1.5 GB), and starts the servers that do not answer.
# test  runs the suites and stories that talk to them, Redis twice, the second time as Valkey.
# down  stops what up started.
#
# up and down need root, up also debootstrap, which it installs.
set -euo pipefail
cd "$(dirname "$0")/.."

home=${CURRENT_HOME:-/var/lib/waybill-current}
root=$home/root
packages="mysql-server-core postgresql rabbitmq-server nats-server redis-server valkey-server"
all="postgres mysql redis valkey rabbitmq nats"

say() { echo "current: $*"; }

port() {
  case $1 in
    postgres) echo 5433 ;;
    mysql) echo 3307 ;;
    redis) echo 6380 ;;
    valkey) echo 6381 ;;
    rabbitmq) echo 5673 ;;
    nats) echo 4223 ;;
  esac
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$(port "$1")") 2>/dev/null; }

# inside USER COMMAND... runs a command in the system.
inside() { chroot --userspec="$1" "$root" "${@:2}"; }

# installed makes the system. Nothing that its packages would start is started.
installed() {
  if [ ! -e "$home/complete" ]; then
    command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap
    say "installing Debian unstable into $root"
    mkdir -p "$home"
    rm -rf --one-file-system "$root"
    debootstrap --variant=minbase sid "$root" http://deb.debian.org/debian >"$home/install.log"
    mounted
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    # A mirror may lag behind.
    inside root:root sh -c "apt-get -o Acquire::Check-Valid-Until=false update -qq &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages" >>"$home/install.log" 2>&1
    inside root:root sh -c 'id mysql >/dev/null 2>&1 || useradd --system mysql'
    touch "$home/complete"
  fi
  mounted
}

mounted() {
  mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
  mountpoint -q "$root/dev" || mount --bind /dev "$root/dev"
}

# started SERVICE USER COMMAND... leaves the command running, its process id in a file.
started() {
  local service=$1 user=$2
  shift 2
  setsid nohup chroot --userspec="$user" "$root" "$@" >"$home/$service.log" 2>&1 &
  echo $! >"$home/$service.pid"
}

# data SERVICE USER makes the directory of a service.
data() {
  mkdir -p "$root/srv/$1"
  chroot "$root" chown "$2" "/srv/$1"
}

start() {
  case $1 in
    postgres)
      data postgres postgres
      local bin
      bin=$(cd "$root" && echo usr/lib/postgresql/*/bin)
      [ -e "$root/srv/postgres/data" ] || inside postgres "/$bin/initdb" -D /srv/postgres/data -U postgres -A trust >"$home/init.log"
      started postgres postgres "/$bin/postgres" -D /srv/postgres/data -p 5433 -k /srv/postgres -c listen_addresses=127.0.0.1 -c max_connections=200
      ;;
    mysql)
      data mysql mysql
      [ -e "$root/srv/mysql/data" ] || inside mysql mysqld --no-defaults --secure-file-priv= --initialize-insecure --datadir=/srv/mysql/data 2>"$home/init.log"
      echo "CREATE USER IF NOT EXISTS root@'127.0.0.1'; GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION; CREATE DATABASE IF NOT EXISTS test;" >"$root/srv/mysql/init.sql"
      started mysql mysql mysqld --no-defaults --secure-file-priv= --datadir=/srv/mysql/data --init-file=/srv/mysql/init.sql \
        --port=3307 --bind-address=127.0.0.1 --mysqlx=OFF --socket=/srv/mysql/socket --pid-file=/srv/mysql/pid
      ;;
    redis | valkey)
      data "$1" "$1"
      started "$1" "$1" "$1-server" --bind 127.0.0.1 --port "$(port "$1")" --save "" --appendonly no --dir "/srv/$1"
      ;;
    rabbitmq)
      data rabbitmq rabbitmq
      started rabbitmq rabbitmq env HOME=/srv/rabbitmq RABBITMQ_NODENAME=current@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 \
        RABBITMQ_NODE_PORT=5673 RABBITMQ_DIST_PORT=25773 RABBITMQ_MNESIA_BASE=/srv/rabbitmq/data RABBITMQ_LOG_BASE=/srv/rabbitmq/log \
        /usr/lib/rabbitmq/bin/rabbitmq-server
      ;;
    nats)
      data nats nobody
      started nats nobody nats-server -a 127.0.0.1 -p 4223 -js -sd /srv/nats
      ;;
  esac
}

up() {
  installed
  local service i
  for service in $all; do
    answers "$service" || start "$service"
  done
  for service in $all; do
    for ((i = 0; i < 120; i++)); do
      answers "$service" && break
      sleep 0.5
    done
    answers "$service" || { say "$service does not answer, see $home/$service.log"; return 1; }
    say "$service is ready on port $(port "$service")"
  done
  createdb --host=127.0.0.1 --port=5433 --username=postgres test 2>/dev/null || true
}

down() {
  local service session at
  for service in $all; do
    [ -e "$home/$service.pid" ] || continue
    session=$(cat "$home/$service.pid") # RabbitMQ's script has started others
    pkill -TERM --session "$session" || true
    while pgrep --session "$session" >/dev/null; do sleep 0.2; done
    rm "$home/$service.pid"
    say "$service is stopped"
  done
  for at in proc dev; do
    if mountpoint -q "$root/$at"; then umount --lazy "$root/$at"; fi
  done
}

# The suites that need a server of another kind, or one that the tests start themselves.
others='EmbeddedServer|Cluster|SQLite|Mem|Mongo|Kafka|ASB|HTTPBroker|Interop'

run() {
  export POSTGRES_URL='postgres://postgres@127.0.0.1:5433/test?sslmode=disable' MYSQL_URL='root@tcp(127.0.0.1:3307)/test' \
    MYSQL_STORE=mysql://root@127.0.0.1:3307/test REDIS_URL=redis://127.0.0.1:6380/0 \
    RABBITMQ_URL=amqp://guest:guest@127.0.0.1:5673/ NATS_URL=nats://127.0.0.1:4223 E2E_SESSION=plain
  # PgBouncer stands before the other PostgreSQL, and the first program names its servers itself.
  go test -count 1 -timeout 30m -parallel 4 -skip "$others|/through_PgBouncer" ./internal/conformance
  go test -count 1 -timeout 30m -parallel 4 -skip "TestFirstProgram|TestReplicas|TestTenantsShareFairly|$(go run ./scripts/testsof cluster,clock ./internal/e2e)" ./internal/cli/... ./internal/e2e
  REDIS_URL=redis://127.0.0.1:6381/0 go test -count 1 -timeout 10m -run Redis -skip Cluster ./internal/conformance
}

case ${1:-} in
  up) up ;;
  down) down ;;
  test) run ;;
  *) sed -n 's/^# \{0,1\}//; 2,/^set/p' "$0" | sed '$d' && exit 2 ;;
esac
