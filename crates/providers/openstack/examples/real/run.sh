#!/bin/bash
# Installs the services into the cache folder, starts them, and runs the provider against them.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
HOME_OF=${XDG_CACHE_HOME:-$HOME/.cache}/machinist/openstack
VENV=$HOME_OF/venv RUN=$HOME_OF/run
if [ ! -e "$VENV/installed" ]; then
  rm -rf "$VENV"; mkdir -p "$HOME_OF"; python3 -m venv "$VENV"
  "$VENV/bin/pip" install --quiet keystone==30.0.0 nova==34.0.0 neutron==29.0.0 glance==33.0.0 openstack-placement==16.0.0 pymysql==1.2.4 uwsgi==2.0.31
  touch "$VENV/installed"
fi
cargo build --locked --package openstack --example real
stop() { for pid in $(cat "$RUN/pids" 2> /dev/null); do kill "$pid" 2> /dev/null || true; done; }
trap stop EXIT
bash "$HERE/up.sh" "$VENV" "$RUN"
cargo run --locked --package openstack --example real -- "$RUN"
