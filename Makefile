# The spellings of machine-api-operator and machine-config-operator. `cargo xtask --help` has everything else.

# `make image PROFILE=dev` is quick, and its programs are those of `make build`.
PROFILE ?= release

.PHONY: build image test test-unit test-e2e generate verify clean

build: ## the programs in bin/, under our names and upstream's
	cargo xtask dist programs --profile dev --out bin

image: ## an OCI image in target/dist
	cargo xtask dist image --profile $(PROFILE)

test test-unit: ## the quick tests, which need nothing but Rust
	cargo test --locked

test-e2e: ## stories on real parts: needs root, Go and Debian's tools
	cargo test --locked --package e2e

generate:
	cargo xtask generate

verify:
	cargo xtask tidy

clean:
	rm -rf bin target/dist
