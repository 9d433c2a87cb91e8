#!/usr/bin/env bash
# Plants one fault after another in a copy of the source and demands that TestChaos finds it: a harness that finds
# nothing has shown nothing. The faults are testdata/faults/*.patch. RUNS bounds how many seeds are tried on each.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${RUNS:-300}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

missed=0
for fault in node/testdata/faults/*.patch; do
	name=$(basename "$fault" .patch)
	rm -rf "$copy/tree"
	mkdir "$copy/tree"
	git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy/tree"
	git -C "$copy/tree" apply --whitespace=nowarn "$PWD/$fault" # fails where the source has moved on: make the patch anew
	(cd "$copy/tree" && go test -c -o "$copy/node.test" ./node)
	if (cd "$copy/tree/node" && timeout 600 "$copy/node.test" -test.run '^TestChaos$' -chaos.runs "$runs") >"$copy/log" 2>&1; then
		echo "$name: NOT FOUND in $runs runs"
		missed=1
		continue
	fi
	if ! grep -q 'found by' "$copy/log"; then
		echo "$name: the test failed without a finding:"
		tail -n 30 "$copy/log"
		missed=1
		continue
	fi
	echo "$name: $(grep -o 'seed [0-9]* broke a promise.*' "$copy/log")"
	grep -o 'found by [a-z ]*' "$copy/log" | sort | uniq -c | sort -rn
done
exit "$missed"
