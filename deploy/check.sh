#!/usr/bin/env bash
# Checks all that ships for deployment, as far as a machine without Docker can. Missing tools come by apt-get.
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
missing=()
for pair in docker-compose:docker-compose shellcheck:shellcheck promtool:prometheus haproxy:haproxy curl:curl; do
	command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
	as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
fi

work=$(mktemp -d)
node=
cleanup() {
	[ -z "$node" ] || kill "$node" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
step() { echo "== $*"; }

step "scripts"
shellcheck deploy/*.sh deploy/couchbase/*.sh

step "secrets: made, then kept"
mkdir -p "$work/deploy"
cp deploy/secrets.sh "$work/deploy/"
"$work/deploy/secrets.sh" >/dev/null
before=$(cat "$work"/deploy/secrets/*)
"$work/deploy/secrets.sh" >/dev/null
[ "$before" = "$(cat "$work"/deploy/secrets/*)" ]

step "docker-compose.yml, with the defaults and with .env.example"
: >"$work/empty.env"
docker-compose --env-file "$work/empty.env" config -q
docker-compose --env-file .env.example config -q

step "haproxy.cfg, with fixed nodes and with a DNS name"
env STICKY=:8081 NONSTICKY=:8082 NODE1=127.0.0.1:8011 NODE2=127.0.0.1:8021 NODE3=127.0.0.1:8031 \
	haproxy -c -f deploy/haproxy/haproxy.cfg
env STICKY=:8081 NONSTICKY=:8082 NODES=klatch:8080 DNS=127.0.0.11:53 haproxy -c -f deploy/haproxy/haproxy.cfg

step "prometheus.yml" # the file of the token exists in the container only
sed "s|/run/secrets/|$work/deploy/secrets/|" deploy/prometheus/prometheus.yml >"$work/prometheus.yml"
promtool check config "$work/prometheus.yml"

step "the image's build, by hand: from what the build may see, to what the last stage holds"
mkdir -p "$work/src" "$work/image/var/lib/klatch" "$work/image/run/secrets"
chmod 755 "$work"
git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -x -C "$work/src"
grep -v '^#' .dockerignore | while read -r ignored; do
	case $ignored in
	'**/'*) find "$work/src" -name "${ignored#'**/'}" -delete ;;
	*) rm -rf "${work:?}/src/$ignored" ;;
	esac
done
(cd "$work/src" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.release=check" -o "$work/image/klatch" ./cmd/klatch)
cp "$work"/deploy/secrets/{api_token,gossip_key} "$work/image/run/secrets/"
as_root chown 65532:65532 "$work/image/var/lib/klatch"

step "the last stage's files alone, as its user: serve, health, members, drain"
contained() { as_root "${settings[@]}" chroot --userspec=65532:65532 "$work/image" "$@"; }
settings=(env KLATCH_NAME=n1 KLATCH_HTTP=127.0.0.1:27070 KLATCH_ADMIN=127.0.0.1:27071 KLATCH_APP=127.0.0.1:27080
	KLATCH_GOSSIP=127.0.0.1:27946 KLATCH_STORE=sqlite:/var/lib/klatch/klatch.db KLATCH_DRAIN_GRACE=0s
	KLATCH_API_TOKEN_FILE=/run/secrets/api_token KLATCH_GOSSIP_KEY_FILE=/run/secrets/gossip_key)
contained /klatch serve 2>"$work/log" &
node=$!
for _ in $(seq 100); do
	contained /klatch health --admin http://127.0.0.1:27071 2>/dev/null && break
	sleep 0.1
done
contained /klatch members --admin http://127.0.0.1:27071 || { cat "$work/log"; exit 1; }
contained /klatch drain --admin http://127.0.0.1:27071
wait "$node" || { cat "$work/log"; exit 1; }
node=
if contained /klatch health --admin http://127.0.0.1:27071 2>/dev/null; then
	echo "health of a node that has ended succeeds"
	exit 1
fi
echo "all checks passed; what needs Docker was not run"
