#!/bin/sh
# Prepares a Couchbase node for klatch by its REST API: cluster, bucket, scope, collection, and a user who may do no
# more than klatch needs. It may run again at any time: it makes what is missing, leaves what is there, and gives the
# user the current password and rights.
#
# Environment: COUCHBASE_URL, BUCKET, SCOPE, COLLECTION, STORE_USER, ADMIN_USER, ADMIN_PASSWORD_FILE,
# STORE_PASSWORD_FILE, MEMORY_MB (of the node), BUCKET_MB, REPLICAS, PATIENCE (seconds).
set -eu

url=${COUCHBASE_URL:-http://couchbase:8091}
bucket=${BUCKET:-klatch}
scope=${SCOPE:-klatch}
collection=${COLLECTION:-records}
store_user=${STORE_USER:-klatch}
admin_user=${ADMIN_USER:-Administrator}
memory_mb=${MEMORY_MB:-512}
bucket_mb=${BUCKET_MB:-256}
replicas=${REPLICAS:-0}
patience=${PATIENCE:-180}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
umask 077

say() { echo "couchbase-init: $*"; }
fail() {
	say "$*" >&2
	exit 1
}

# Passwords go to curl by files and standard input: the list of processes would show its arguments.
read_secret() { # FILE
	secret=$(cat "$1") || fail "cannot read $1 (make secrets makes it)"
	[ -n "$secret" ] || fail "$1 is empty (make secrets makes it)"
	printf '%s' "$secret"
}
read_secret "${ADMIN_PASSWORD_FILE:-/run/secrets/couchbase_admin_password}" >"$work/admin"
read_secret "${STORE_PASSWORD_FILE:-/run/secrets/store_password}" >"$work/store"
login() { # USER FILE: a configuration of curl
	printf 'user = "%s:%s"\n' "$1" "$(sed 's/[\\"]/\\&/g' "$2")"
}
login "$admin_user" "$work/admin" >"$work/as-admin"
login "$store_user" "$work/store" >"$work/as-store"

# call METHOD PATH [curl's arguments]: sets $status, and the answer in $work/answer. No answer is status 000.
call() {
	method=$1 path=$2
	shift 2
	status=$(curl --silent --max-time 30 --config "$work/as-admin" --output "$work/answer" --write-out '%{http_code}' \
		--request "$method" "$url$path" "$@") || true
}
answer() { cat "$work/answer" 2>/dev/null || true; }

# until_true WHAT COMMAND…: repeats the command each second until it succeeds.
deadline=$(($(date +%s) + patience))
until_true() {
	what=$1
	shift
	until "$@"; do
		[ "$(date +%s)" -lt "$deadline" ] || fail "$what: not so after ${patience}s; the last answer was $status $(answer)"
		sleep 1
	done
}

listening() {
	call GET /pools
	[ "$status" = 200 ] || [ "$status" = 401 ]
}
# Before there is a cluster, nobody is asked for a password, and there is no pool "default".
cluster_known() {
	call GET /pools/default
	case $status in
	200 | 404) return 0 ;;
	401) fail "the cluster exists and refuses the password of $admin_user: use the one that it was made with" ;;
	*) return 1 ;;
	esac
}
healthy() { # PATH
	call GET "$1"
	[ "$status" = 200 ] && grep -q '"status" *: *"healthy"' "$work/answer"
}
# A node that has just got a new task refuses the next for a moment, by a status of 500 or more, or none.
made() { # METHOD PATH [curl's arguments]: true if made now or before
	call "$@"
	case $status in
	200 | 201 | 202) return 0 ;;
	400) grep -q 'already exists\|already used' "$work/answer" || fail "$2: $(answer)" ;;
	000 | 5??) return 1 ;;
	*) fail "$2: $status $(answer)" ;;
	esac
}

until_true "Couchbase at $url answers" listening
until_true "Couchbase at $url knows whether it has a cluster" cluster_known
if [ "$status" = 404 ]; then
	say "making the cluster"
	until_true "the cluster is made" made POST /clusterInit --data clusterName=klatch --data services=kv \
		--data "memoryQuota=$memory_mb" --data port=SAME --data sendStats=false \
		--data-urlencode "username=$admin_user" --data-urlencode "password@$work/admin"
fi
until_true "the cluster is healthy" healthy /pools/default

call GET "/pools/default/buckets/$bucket"
if [ "$status" != 200 ]; then
	say "making bucket $bucket"
	until_true "bucket $bucket is made" made POST /pools/default/buckets --data "name=$bucket" --data bucketType=couchbase \
		--data "ramQuota=$bucket_mb" --data "replicaNumber=$replicas" --data flushEnabled=0
fi
until_true "bucket $bucket is healthy" healthy "/pools/default/buckets/$bucket"

scopes=/pools/default/buckets/$bucket/scopes
[ "$scope" = _default ] || until_true "scope $scope is made" made POST "$scopes" --data "name=$scope"
[ "$collection" = _default ] ||
	until_true "collection $collection is made" made POST "$scopes/$scope/collections" --data "name=$collection"

# Rights on one collection are a matter of the Enterprise Edition. The least that the Community Edition has is all
# data of one bucket.
call GET /pools
if grep -q '"isEnterprise" *: *true' "$work/answer"; then
	where=[$bucket:$scope:$collection]
	roles=data_reader$where,data_writer$where
else
	roles=bucket_full_access[$bucket]
fi
until_true "user $store_user is made" made PUT "/settings/rbac/users/local/$store_user" \
	--data-urlencode "roles=$roles" --data-urlencode "password@$work/store"

can_log_in() {
	status=$(curl --silent --max-time 30 --config "$work/as-store" --output "$work/answer" --write-out '%{http_code}' \
		"$url/whoami") || true
	[ "$status" = 200 ]
}
until_true "user $store_user can log in" can_log_in
say "ready: bucket $bucket, collection $scope.$collection, user $store_user with $roles"
