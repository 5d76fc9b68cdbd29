# Tool versions are pinned here and nowhere else; tools run through "go run" and leave no
# trace in go.mod.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Packages tested at a time. They share the servers' connections.
PACKAGES_AT_ONCE ?= 2

# The kinds of database session in which every whole-system story runs once more.
SESSIONS = "time zone Asia/Tokyo" "repeatable read" "serializable" "hostile schema name" "a transaction stays open"

# The stories that run once more through PgBouncer.
POOLED = ^(TestAS0|TestAS1|TestAS2|TestAS3|TestOutbox|TestRoundTrip|TestSQLContract|TestObjectMapper)

# The stories that are about time, processes or options: they run once, in sessions as they come.
SESSIONLESS = ^(TestReplicas|TestAS07|TestAS15|TestAS20|TestAS21|TestIdleBudget|TestOneTopic|TestSlowDestination|TestTroubled|TestFirstProgram|TestRush|TestAS19|TestAS69|TestAS22|TestAS26Poison|TestAS26Outage|TestRollingUpgrade|TestIncident|TestReplaySurvivesKill)

# Tests of a package that run at a time: most of them wait for servers.
TESTS_AT_ONCE ?= 4

# The stories that have a long form.
SOAK ?= ^(TestReplicasHistory|TestAS15BrokerAway|TestAS69Soak)$$

.DEFAULT_GOAL := help
.PHONY: help test check soak bench screenshots services services-down demo

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

test: services ## start the servers and run every test with the race detector
	@for session in $(SESSIONS); do \
		echo "every story, session: $$session"; \
		E2E_SESSION="$$session" go test -timeout 5m -parallel $(TESTS_AT_ONCE) -skip '$(SESSIONLESS)' ./internal/e2e || exit 1; \
	done
	@echo "the main stories, session: through PgBouncer"
	@E2E_SESSION="through PgBouncer" go test -timeout 5m -parallel $(TESTS_AT_ONCE) -run '$(POOLED)' -skip '$(SESSIONLESS)' ./internal/e2e
	@go test -race -p $(PACKAGES_AT_ONCE) -parallel $(TESTS_AT_ONCE) -timeout 15m ./...
	@cd bench && go test ./...

soak: services ## run the long stories in full, with the race detector
	@E2E_SOAK=1 go test -race -count 1 -v -timeout 60m -run '$(SOAK)' ./internal/e2e

check: ## formatting, vet, staticcheck, build, and a tidy go.mod
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted, run gofmt -w:"; echo "$$files"; exit 1; fi
	go build ./...
	go vet ./...
	go run $(STATICCHECK) ./...
	go mod tidy -diff
	cd bench && go vet ./... && go run $(STATICCHECK) ./... && go mod tidy -diff

bench: services ## measure everything beside the floor and other libraries, into docs/performance.md
	@cd bench && go run . -out ../docs

screenshots: ## take the pictures of the dashboard in docs/img
	@scripts/services.sh browser
	@go run ./internal/browser/shots

services: ## make the servers that the tests need available on 127.0.0.1
	@scripts/services.sh up
	@scripts/services.sh browser

services-down: ## stop the servers that "services" started
	@scripts/services.sh down

demo: ## show a message on its way from transaction to handler
	@go run ./cmd/waybill demo
