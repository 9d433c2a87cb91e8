# make alone lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@latest

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## build and start the demo cluster: three nodes, a sticky and a non-sticky balancer
	bin/klatch demo

.PHONY: build
build: ## build bin/klatch
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.release=$(VERSION)" -o bin/klatch ./cmd/klatch

.PHONY: test
test: ## run the tests of both modules with the race detector
	go test -race -timeout 10m ./...
	cd test && go test -race -timeout 10m ./...

.PHONY: e2e
e2e: e2e-tools ## run the end-to-end tests: real processes, real HAProxy and curl (installed by apt-get if missing)
	go test -tags e2e -count=1 -timeout 10m ./e2e/...
	go test -tags e2e -count=1 -timeout 10m -run 'S[0-9]+|Agree|HAProxy|Sticky|Operations' -skip TestChaos ./e2e/... -args -couchbase

.PHONY: chaos
chaos: e2e-tools ## let faults loose for long (RUNS=1000 seeds): in memory, planted ones, between network namespaces (as root)
	go test -count=1 -timeout 60m -run '^Test(Chaos|StampsUnderFaults)$$' -v ./node -chaos.runs $(or $(RUNS),1000) | grep -v '^ *\(---\|===\)'
	node/chaos-faults.sh
	go test -tags e2e -count=1 -timeout 60m -run TestChaos -v ./e2e -args -long

.PHONY: scaling
scaling: ## simulate clusters of 10 to 300 nodes in virtual time: the table of docs/scaling.md (minutes)
	go test -count=1 -timeout 60m -run '^TestScaling$$' -v ./cluster/netsim -scaling.nodes $(or $(NODES),10$(comma)30$(comma)64$(comma)100$(comma)300)

.PHONY: propagation
propagation: ## measure the news on loopback: delays to 2, 9 and 29 peers with and without loss, processor time
	go test -count=1 -timeout 30m -run '^$$' -bench 'Propagation|NewsCost' -benchtime 500x ./cluster

.PHONY: gossip-cost
gossip-cost: e2e-tools ## measure what gossip costs three nodes: pairs of runs with and without it (PAIRS=10)
	go build -tags nogossip -o bin/klatch-nogossip ./cmd/klatch
	go test -tags e2e,gossipcost -count=1 -timeout 60m -run '^TestGossipCost$$' -v ./e2e -pairs $(or $(PAIRS),10)

comma := ,

.PHONY: e2e-tools
e2e-tools: build
	@for tool in haproxy curl nft ip; do command -v $$tool >/dev/null || missing=1; done; test -z "$$missing" || \
		{ $(call as-root,apt-get update -q) && $(call as-root,apt-get install -qy haproxy curl nftables iproute2); }
	cd test && go build -o ../bin/ ./cmd/...
	go build -tags clockoffset -o bin/klatch-clockoffset ./cmd/klatch

as-root = $(if $(filter 0,$(shell id -u)),,sudo )env DEBIAN_FRONTEND=noninteractive $(1)

.PHONY: secrets
secrets: ## make the secrets of docker-compose.yml in deploy/secrets; what is there is kept
	@deploy/secrets.sh

.PHONY: deploy-check
deploy-check: ## check compose file, image, HAProxy, Prometheus, scripts, without Docker (tools by apt-get)
	deploy/check.sh

.PHONY: lint
lint: ## check form, vet, staticcheck
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	go vet ./...
	go vet -tags e2e ./e2e/...
	go vet -tags clockoffset,nogossip ./node
	go vet -tags e2e,gossipcost ./e2e/...
	go run $(STATICCHECK) -tags e2e ./...
	cd test && go vet ./... && go run $(STATICCHECK) ./...

.PHONY: vuln
vuln: ## look for known vulnerabilities (needs the Go vulnerability database)
	go run $(GOVULNCHECK) ./...

.PHONY: bench
bench: ## run the benchmarks
	go test -run '^$$' -bench . -benchtime 3s ./...

.PHONY: fuzz
fuzz: ## run each fuzz target for a minute (FUZZTIME=1m)
	@for package in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for target in $$(grep -h -o '^func Fuzz[A-Za-z0-9]*' $$package/*_test.go | cut -c6-); do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(or $(FUZZTIME),1m) $$package || exit 1; \
		done; \
	done

.PHONY: clean
clean: ## remove what was built
	rm -rf bin coverage.out
