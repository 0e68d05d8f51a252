# The daily commands; the work is done in scripts/.

.PHONY: help run test test-long soak check coverage bench bench-uploads cache-cases fuzz model dist clean

help:
	@echo 'make run            serve the sample site on https://localhost:8443'
	@echo '                    (ARGS="--set policy.version=h2" adds to the command line)'
	@echo 'make test           install what tests need, then run every test but the long ones'
	@echo 'make test-long      the long ones: experiments in the lab, crashes again and again'
	@echo 'make soak           an hour of mixed clients, reloads, restarts and kills'
	@echo '                    (HIKYAKU_SOAK=600 for ten minutes)'
	@echo 'make check          formatting, lints, arrows, documentation, prose, dependencies'
	@echo 'make coverage       the share of lines that the Rust tests run'
	@echo 'make bench          what the edge server costs, beside other servers and builds'
	@echo 'make bench-uploads  uploads over a satellite link, by every version (root)'
	@echo 'make cache-cases    how hikyaku, nginx and Varnish cache: writes docs/results/cache.md'
	@echo 'make fuzz           feed the parsers what nobody would write, a minute each'
	@echo 'make model          measure and fit models/default.json anew (root)'
	@echo 'make dist           pack a release into build/dist'
	@echo 'make clean          remove everything that was built or generated'

run:
	@bash scripts/run.sh $(ARGS)

test:
	@bash scripts/test.sh

test-long:
	@bash scripts/test.sh long

soak:
	@bash scripts/setup.sh test
	@HIKYAKU_SOAK=$${HIKYAKU_SOAK:-3600} cargo test --locked -p hikyaku --test soak -- --nocapture

check:
	@bash scripts/check.sh

coverage:
	@bash scripts/coverage.sh $(ARGS)

bench:
	@bash scripts/bench.sh $(ARGS)

bench-uploads:
	@bash scripts/bench-uploads.sh $(ARGS)

cache-cases:
	@bash scripts/setup.sh test
	@HIKYAKU_CACHE_REPORT=$(CURDIR)/docs/results/cache.md cargo test --locked -p hikyaku --test cache_cases the_results

fuzz:
	@bash scripts/fuzz.sh $(ARGS)

model:
	@cargo build --quiet --release --locked -p hikyaku
	@target/release/hikyaku lab run model $(ARGS)
	@target/release/hikyaku lab fit build/lab/model -o models/default.json

dist:
	@bash scripts/dist.sh

clean:
	@cargo clean --quiet
	@rm -rf build site/generated site/*.gz site/*.br
