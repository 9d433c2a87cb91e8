#!/bin/sh
# Makes the secrets of docker-compose.yml in deploy/secrets. What is there already is kept.
set -eu

directory=$(dirname "$0")/secrets
umask 077
mkdir -p "$directory"
# The directory keeps other users of this machine out. The files in it are readable for all, because containers see
# only the file, as another user than its owner.
chmod 700 "$directory"

make_secret() { # NAME COMMAND…
	file=$directory/$1
	shift
	if [ -s "$file" ]; then
		echo "kept $file"
		return
	fi
	value=$("$@")
	printf '%s\n' "$value" >"$file.new"
	chmod 644 "$file.new"
	mv "$file.new" "$file"
	echo "made $file"
}

base64_of_32_bytes() { head -c 32 /dev/urandom | base64; }
hex_of_24_bytes() { head -c 24 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }

make_secret couchbase_admin_password hex_of_24_bytes
make_secret store_password hex_of_24_bytes
make_secret api_token base64_of_32_bytes
make_secret gossip_key base64_of_32_bytes
