#!/bin/bash
# Installs, uses, upgrades and removes the packages in /srv/old and /srv/new. Runs as root in a Debian with systemd.
set -euxo pipefail
cd /srv

await() { # <command...>: until it succeeds, for half a minute
    for _ in $(seq 300); do ! "$@" >/dev/null 2>&1 || return 0; sleep 0.1; done
    "$@"
}
main_pid() { systemctl show --property MainPID --value pccl-master; }

dpkg --install old/*.deb
# Nothing runs before the administrator wants it.
[ "$(systemctl is-enabled pccl-master || true)" = disabled ]
[ "$(systemctl is-active pccl-master || true)" = inactive ]
pccl version
man --where 1 pccl pccl-master ccoip_master
man --where 3 pcclConnect

# With a token: the master's, and one from `pccl token` that lets a single peer join. It loads the system's OpenSSL.
mkdir -p /etc/systemd/system/pccl-master.service.d
printf '[Service]\nStateDirectory=pccl-master\nStateDirectoryMode=0700\n' >/etc/systemd/system/pccl-master.service.d/state.conf
echo 'PCCL_MASTER_STATE=/var/lib/pccl-master' >/etc/default/pccl-master
systemctl daemon-reload
systemctl enable --now pccl-master
[ "$(systemctl is-active pccl-master)" = active ]
export PCCL_PORT=0
peer=(pccl perf --connect 127.0.0.1 -N 2 --sizes "4,256K" -n 2)
if "${peer[@]}"; then exit 1; fi # without a token
token=$(pccl token create --uses 1 --state /var/lib/pccl-master)
PCCL_TOKEN=$token "${peer[@]}" &
PCCL_TOKEN_FILE=/var/lib/pccl-master/run.token "${peer[@]}"
wait $!

# An upgrade keeps the running master; the next start is of the new version.
before=$(main_pid)
dpkg --install new/*.deb
[ "$(main_pid)" = "$before" ]
[ -d "/proc/$before" ]
systemctl restart pccl-master
[ "$(main_pid)" != "$before" ]
[ "$(systemctl is-active pccl-master)" = active ]

before=$(main_pid)
dpkg --purge pccl libpccl-dev libpccl1
await [ ! -d "/proc/$before" ]
[ "$(systemctl is-active pccl-master || true)" != active ]
[ -z "$(find /usr /lib /etc/systemd/system/*.wants /var/lib/systemd -name '*pccl*' ! -path '/usr/share/doc/*' 2>/dev/null)" ]
echo "system.sh: good"
