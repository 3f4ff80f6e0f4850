# Developer commands: each is one line, a script in scripts/, or a command of xtask/.

.DEFAULT_GOAL := help
.PHONY: build demo test bench bench-history fmt clean help

build: ## build the release program, target/release/speedwell
	cargo build --release --package speedwell

demo: ## compare two versions of Node.js, in about two minutes after the build
	scripts/demo

test: ## install missing test tools if possible, then check everything
	scripts/install-test-tools & cargo xtask test build; wait
	cargo xtask test

bench: ## measure Speedwell itself: statistics, store, cost of a sample
	cargo bench --package speedwell-stats --bench speed
	cargo bench --package speedwell --bench store
	cargo bench --package speedwell --bench sample_cost

bench-history: ## did Speedwell itself become slower in its last 20 commits?
	eval/bench-history

fmt: ## format the Rust code
	cargo fmt --all

clean: ## remove what was built, and what the demo and the tests installed into the checkout or fetched
	cargo clean
	rm -rf demo-out examples/overhead/servers/node_modules "$${XDG_CACHE_HOME:-$$HOME/.cache}/speedwell/demo"

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
