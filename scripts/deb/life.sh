#!/bin/bash
# Lives through the life of both packages: installs them, serves the first page, changes the
# configuration, upgrades, removes and purges. A fault ends it; the last "step" says where.
#
# usage, as root, in a root and a network of its own: life.sh FOLDER OLD NEW
#        FOLDER has both packages in the versions OLD and NEW
set -e
export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
cd "$1"
old=$2 new=$3
both=(hikyaku hikyaku-egress)

step() { echo "step: $*"; }

installs() { # installs VERSION
    dpkg --install "hikyaku_$1_"*.deb "hikyaku-egress_$1_"*.deb </dev/null
    local package
    for package in "${both[@]}"; do
        [ "$(dpkg-query --show --showformat='${Status} ${Version}' "$package")" = "install ok installed $1" ]
    done
}

rm -rf /etc/hikyaku /var/lib/hikyaku /var/lib/hikyaku-egress
rm -f /var/lib/man-db/auto-update # its index takes seconds

step install
installs "$old"
dpkg --verify "${both[@]}"

step files
/usr/bin/hikyaku-egress version
/usr/bin/hikyaku --help >/dev/null
for file in hikyaku:edge hikyaku-egress:egress-border hikyaku-egress:egress-server; do
    dpkg-query --show --showformat='${Conffiles}\n' "${file%:*}" | grep -q "/etc/hikyaku/${file#*:}.toml"
done
if grep -n /usr/local /usr/lib/systemd/system/hikyaku*.service; then false; fi
zcat /usr/share/man/man8/hikyaku-egress.8.gz | grep -q 'check \\-\\-config FILE'
if command -v man >/dev/null; then
    man --warnings --local-file /usr/share/man/man8/hikyaku-egress.8.gz | grep -q "check --config FILE"
    man --warnings --local-file /usr/share/man/man1/hikyaku.1.gz | grep -q hikyaku
fi

step completion
COMP_CWORD=1
# shellcheck disable=SC1091  # The package has it.
. /usr/share/bash-completion/completions/hikyaku-egress
_hikyaku_egress hikyaku-egress bor hikyaku-egress
[ "${COMPREPLY[*]}" = border ]

step users
id hikyaku
id hikyaku-egress
grep -q '^hikyaku:.*:/nonexistent:/usr/sbin/nologin$' /etc/passwd
grep -q '^hikyaku-egress:.*:/nonexistent:/usr/sbin/nologin$' /etc/passwd

step units
# systemd knows every key of them, and finds the programs.
if command -v systemd-analyze >/dev/null &&
    systemd-analyze verify hikyaku.service hikyaku-egress@border.service 2>&1 | grep hikyaku; then
    false
fi

step logrotate
install -d -o hikyaku -g hikyaku /var/log/hikyaku /var/lib/hikyaku
if command -v logrotate >/dev/null; then
    setpriv --reuid=hikyaku --regid=hikyaku --clear-groups touch /var/log/hikyaku/access.log
    echo line >>/var/log/hikyaku/access.log
    logrotate --force /etc/logrotate.d/hikyaku
    [ -s /var/log/hikyaku/access.log.1 ]
fi

# A test of the package alone has a script in place of the program.
if [ "$(head -c 2 /usr/bin/hikyaku)" != '#!' ]; then
    step first page
    # As the unit starts it: this user, and ports below 1024.
    setpriv --reuid=hikyaku --regid=hikyaku --clear-groups --no-new-privs \
        --inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service --bounding-set=-all,+net_bind_service \
        /usr/bin/hikyaku serve --config /etc/hikyaku/edge.toml &
    server=$!
    for _ in $(seq 100); do
        page=$(curl --silent --insecure https://localhost/ || true)
        [ -z "$page" ] || break
        kill -0 "$server"
        sleep 0.1
    done
    grep -q 'hikyaku works' <<<"$page"
    [ "$(curl --silent --output /dev/null --write-out '%{http_code} %{redirect_url}' http://localhost/)" = "308 https://localhost/" ]
    hikyaku reload --config /etc/hikyaku/edge.toml
    kill "$server"
    wait "$server"
    grep -q '"status":200' /var/log/hikyaku/access.log
fi

step upgrade
echo '# mine' >>/etc/hikyaku/edge.toml
echo '# mine' >>/etc/hikyaku/egress-border.toml
numbers=$(id hikyaku) others=$(id hikyaku-egress)
installs "$new"
grep -q '# mine' /etc/hikyaku/edge.toml
grep -q '# mine' /etc/hikyaku/egress-border.toml
[ "$(id hikyaku) $(id hikyaku-egress)" = "$numbers $others" ]

step one without the other
dpkg --remove hikyaku-egress
[ ! -e /usr/bin/hikyaku-egress ]
[ -x /usr/bin/hikyaku ]
dpkg --purge hikyaku-egress
[ ! -e /etc/hikyaku/egress-border.toml ]
[ -e /etc/hikyaku/edge.toml ]

step remove
mkdir -p /var/lib/hikyaku
dpkg --remove hikyaku
[ ! -e /usr/bin/hikyaku ]
[ ! -e /usr/lib/systemd/system/hikyaku.service ]
grep -q '# mine' /etc/hikyaku/edge.toml
[ -d /var/lib/hikyaku ]

step purge
dpkg --purge hikyaku
[ ! -e /etc/hikyaku ]
[ ! -e /etc/logrotate.d/hikyaku ]
[ ! -e /var/lib/hikyaku ]
[ ! -e /var/log/hikyaku ]
id hikyaku
id hikyaku-egress
step end
