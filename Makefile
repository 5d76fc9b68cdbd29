# Tool versions are pinned here, and that of gosec in scripts/gosec; tools leave no trace in go.mod. Those that run often are
# built once, below .tools, because "go run" asks the module proxy each time.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
GOTESTSUM = gotest.tools/gotestsum@v1.13.0
APIDIFF = golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4
CYCLONEDX = github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
LINTER = $(CURDIR)/.tools/$(notdir $(STATICCHECK))/staticcheck
RUNNER = $(CURDIR)/.tools/$(notdir $(GOTESTSUM))/gotestsum
APIDIFF_TOOL = $(CURDIR)/.tools/$(notdir $(APIDIFF))/apidiff
CYCLONEDX_TOOL = $(CURDIR)/.tools/$(notdir $(CYCLONEDX))/cyclonedx-gomod

# Runs tests. With RERUNS, as in CI, a test that has failed runs again by itself, and the end of
# the output names it; a data race is never tried again.
RERUNS ?= 0
TEST = $(RUNNER) --format standard-quiet --hide-summary skipped \
	--rerun-fails=$(RERUNS) --rerun-fails-max-failures 5 --rerun-fails-abort-on-data-race

# Code is vetted by check, and not again with each set of flags.
FLAGS = -vet=off -timeout 60m

# The race detector watches all code but SQLite's, which is C translated to Go: it would only slow
# that down, fivefold.
RACE = -race -gcflags='modernc.org/...=-race=false'

# Packages tested at a time. They share the servers' connections.
PACKAGES_AT_ONCE ?= 2

# A pattern for the tests of a package that declare to be of a kind: scripts/testsof says which kinds there are.
OF = go run ./scripts/testsof

# The kinds of database session in which the stories of whole systems run that declare it.
SESSIONS = "serializable, time zone, hostile schema name" "repeatable read, a transaction stays open"

# The newest Go release. go.mod names the older of the two that are supported, which runs everything else.
NEWEST_GO = go1.27.4

# The packages whose tests need no server: they run with the newest Go, and, with the suites of one store and one broker, with the
# newest versions of what go.mod requires.
SERVERLESS = $$(go list ./... | grep -vE '/internal/(archtest|browser|cli|conformance|e2e|interleave|soak)(/|$$)')

# The modules other than the main one, whose users need none of what these bring.
MODULES = bench broker/signalrbroker examples/interop/cloudevents examples/interop/otlp scripts/gosec

# Where make long-soak goes on, and how many messages it runs for.
DIR ?= /tmp/waybill-soak
MESSAGES ?= 2000000

# The servers that the tests need are known to what it runs.
RUN = scripts/services.sh run

# How often each fuzz target runs, and which there are: package and name. By a number, because a
# duration ends in a false failure now and then (golang/go issue 75804).
FUZZ_TIME ?= 500000x
FUZZ = internal/span:FuzzOf internal/redact:FuzzURL internal/recording:FuzzReplay inbox:FuzzLeaseKey inboxhttp:FuzzBody inboxhttp:FuzzPath idempotency:FuzzParseKey discovery:FuzzDecode broker/httpbroker:FuzzVerify broker/httpbroker:FuzzDecode internal/cloudevents:FuzzContent

# Tests of a package that run at a time: most of them wait for servers.
TESTS_AT_ONCE ?= 4

# The same for the suites of stores and brokers, which wait longer: for leases and deliveries to lapse.
SUITES_AT_ONCE ?= 12

.DEFAULT_GOAL := help
.PHONY: help test newest newest-versions newest-go test-all test-sessions test-setups test-suites test-rest test-sim test-modules clusters long-soak check check-vet check-static check-gosec check-modules vulnerabilities fuzz soak bench screenshots services services-down demo release check-release try-install api check-deploy

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

test: services ## start the servers and run every test, most of them with the race detector
	@$(RUN) $(MAKE) --no-print-directory test-all

$(LINTER):
	@GOBIN=$(@D) go install $(STATICCHECK)

$(RUNNER):
	@GOBIN=$(@D) go install $(GOTESTSUM)

test-sessions test-setups test-suites test-rest test-sim: $(RUNNER)

test-all:
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target test-setups test-sessions test-suites test-rest test-sim
	@$(MAKE) --no-print-directory test-modules

test-sessions:
	@these=$$($(OF) sessions ./internal/e2e) && for session in $(SESSIONS); do \
		echo "stories of whole systems, session: $$session"; \
		E2E_SESSION="$$session" $(TEST) --packages ./internal/e2e -- $(FLAGS) -parallel $(TESTS_AT_ONCE) -run "$$these" || exit 1; \
	done
	@echo "the main stories, session: through PgBouncer"
	@these=$$($(OF) pooled ./internal/e2e) && \
		E2E_SESSION="through PgBouncer" $(TEST) --packages ./internal/e2e -- $(FLAGS) -parallel $(TESTS_AT_ONCE) -run "$$these"

test-setups:
	@echo "stores on servers, and the other set-ups of stores and brokers"
	@these=$$($(OF) setup ./internal/conformance) && \
		$(TEST) --packages ./internal/conformance -- $(FLAGS) -parallel $(SUITES_AT_ONCE) -run "$$these"

# What the stores on servers share runs here on SQLite; they are in test-setups.
test-suites:
	@echo "brokers, and stores in the process, with the race detector"
	@others=$$($(OF) setup,long ./internal/conformance) && \
		$(TEST) --packages ./internal/conformance -- $(RACE) $(FLAGS) -parallel $(SUITES_AT_ONCE) -skip "$$others"

# One goroutine runs each simulated system, and of the sessions that are interleaved one goes on at a time: the race detector
# has nothing to watch.
test-sim:
	@echo "the simulator, the explorer and the bugs that they find; the orders of sessions"
	@$(TEST) --packages "./internal/sim/... ./internal/interleave" -- $(FLAGS) -parallel $(SUITES_AT_ONCE)

test-rest:
	@echo "everything else, with the race detector"
	@others=$$($(OF) cluster,clock,long-soak ./internal/e2e ./internal/soak) && \
		E2E_SESSION=plain $(TEST) --packages "$$(go list ./... | grep -vE '/internal/(conformance|interleave|sim)(/|$$)' | tr '\n' ' ')" -- \
		$(RACE) $(FLAGS) -p $(PACKAGES_AT_ONCE) -parallel $(TESTS_AT_ONCE) -skip "$$others"

test-modules:
	@cd bench && go test -vet=off ./...
	@cd broker/signalrbroker && go test $(RACE) -vet=off -timeout 5m ./...
	@cd examples/interop/cloudevents && go test -vet=off ./...
	@cd examples/interop/otlp && go test -vet=off ./...

newest: newest-versions newest-go ## test with the newest versions of dependencies, and with the newest Go

# go.mod and go.sum are updated in a copy. What dependencies require stays as they require it.
newest-versions:
	@scripts/services.sh up nats
	@copy=$$(mktemp -d) && trap 'rm -rf "$$copy"' EXIT && cp go.mod go.sum $$copy && \
	at="-modfile=$$copy/go.mod" && \
	go get $$at $$(go list -m -f '{{if not (or .Main .Indirect)}}{{.Path}}@upgrade{{end}}' all) && \
	go mod tidy $$at && \
	go build $$at ./... && go vet $$at ./... && \
	go test $$at -timeout 10m -p $(PACKAGES_AT_ONCE) $(SERVERLESS) && \
	these=$$($(OF) newest ./internal/conformance) && \
	go test $$at -timeout 10m -parallel $(SUITES_AT_ONCE) -run "$$these" ./internal/conformance

newest-go:
	@GOTOOLCHAIN=$(NEWEST_GO) go test -timeout 10m -p $(PACKAGES_AT_ONCE) $(SERVERLESS)

soak: services fuzz ## run the long stories in full, with the race detector, and each fuzz target
	@scripts/services.sh clocks
	@these=$$($(OF) soak-memory ./internal/e2e) && E2E_SOAK=1 $(RUN) go test -count 1 -v -timeout 60m -run "$$these" ./internal/e2e
	@these=$$($(OF) soak ./internal/e2e) && E2E_SOAK=1 $(RUN) go test $(RACE) -count 1 -v -timeout 60m -run "$$these" ./internal/e2e
	@these=$$($(OF) clock ./internal/e2e) && $(RUN) go test -count 1 -v -timeout 60m -run "$$these" ./internal/e2e
	@these=$$($(OF) long,setup ./internal/conformance) && $(RUN) go test $(RACE) -count 1 -timeout 60m -parallel $(SUITES_AT_ONCE) -run "$$these" ./internal/conformance
	@E2E_SOAK=1 $(RUN) go test -count 1 -timeout 120m ./internal/interleave
	@go run ./internal/sim -seeds 1000000
	@go run ./internal/sim -explore -faults 1 -limit 1000000
	@$(RUN) go run ./internal/sim/bugs

long-soak: services ## run two whole systems until MESSAGES are committed, and interrupt everything; goes on in DIR
	@these=$$($(OF) long-soak ./internal/soak) && SOAK_DIR=$(DIR) SOAK_MESSAGES=$(MESSAGES) go test -count 1 -v -timeout 0 -run "$$these" ./internal/soak

clusters: services ## take servers of clusters away while everything is at work
	@scripts/services.sh clusters
	@these=$$($(OF) cluster ./internal/e2e ./internal/soak) && $(RUN) go test -count 1 -v -timeout 120m -p 1 -run "$$these" ./internal/e2e ./internal/soak

check: ## formatting, vet, staticcheck, gosec, build and a tidy go.mod
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted, run gofmt -w:"; echo "$$files"; exit 1; fi
	go build ./...
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-vet check-static check-gosec check-modules

# The pattern leaves out what is below testdata.
check-vet:
	go vet ./... ./internal/e2e/testdata/version1
	go mod tidy -diff

check-static: $(LINTER)
	$(LINTER) ./...

check-gosec:
	go run -C scripts/gosec . $(CURDIR) $(CURDIR)/broker/signalrbroker

check-modules: $(LINTER)
	@for module in $(MODULES); do \
		(cd $$module && go vet ./... && $(LINTER) ./... && go mod tidy -diff) || exit 1; \
	done

$(APIDIFF_TOOL):
	@GOBIN=$(@D) go install $(APIDIFF)

$(CYCLONEDX_TOOL):
	@GOBIN=$(@D) go install $(CYCLONEDX)

release check-release: export CYCLONEDX := $(CYCLONEDX_TOOL)
api: export APIDIFF := $(APIDIFF_TOOL)

release: $(CYCLONEDX_TOOL) ## build the release VERSION=v0.1.0 into dist, and print how to publish it; SNAPSHOT=1 for a trial
	@VERSION='$(VERSION)' SNAPSHOT='$(SNAPSHOT)' scripts/release.sh

check-release: $(CYCLONEDX_TOOL) ## build a snapshot twice, compare the two, and run what is in the image
	@scripts/check-release.sh $(DIRECTORY)

try-install: ## install and import VERSION=v0.1.0 from a module proxy of files, before it is tagged
	@scripts/try-install.sh '$(VERSION)'

api: $(APIDIFF_TOOL) ## say what this checkout breaks for programs that use REF=v0.1.0
	@scripts/api.sh '$(REF)'

check-deploy: ## check what deploy/ has for Kubernetes and systemd, by kubectl and systemd-analyze
	@scripts/check-deploy.sh

# Not part of check: the database is not reachable from everywhere.
vulnerabilities: ## look for known vulnerabilities in what is called, by the database of vuln.go.dev
	go run $(GOVULNCHECK) ./...

fuzz: ## try each fuzz target $FUZZ_TIME, half a million times
	@for target in $(FUZZ); do \
		go test -run '^$$' -fuzz "^$${target#*:}$$" -fuzztime $(FUZZ_TIME) -fuzzminimizetime 1000x ./$${target%%:*} || exit 1; \
	done

bench: ## measure everything next to the floor and other libraries, into bench/results
	@scripts/services.sh down
	@SERVICES_DURABLE=1 scripts/services.sh up
	@cd bench && go run . -out results

screenshots: ## retake the pictures of the dashboard in docs/img
	@scripts/services.sh browser
	@go run ./internal/browser/shots

services: ## make the servers that the tests need available on 127.0.0.1
	@scripts/services.sh up
	@scripts/services.sh browser
	@scripts/services.sh languages
	@scripts/services.sh interop

services-down: ## stop the servers that "services" started
	@scripts/services.sh down

demo: ## follow a message from transaction to handler
	@go run ./cmd/demo
