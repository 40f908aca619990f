# Every target does all of its own set-up; `make help` lists them. Works with GNU make 3.81.
#
# KOKORO_LIVE_* variables, in the environment or after `make`, reach the programs.

.PHONY: help up test soak say setup lint raycast pictures bench lock clean environment dev assets sound \
	test-sound test-node bench-texts
.NOTPARALLEL:

PYTHON := .venv/bin/python
PACKAGES := engine wsproto_api playerd http_compat bench tests
# A process for every core, each of which takes file after file; ARGS=-n0 is one for all.
SPREAD := -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
UV ?= uv
COMPILE = $(UV) pip compile -q --universal --generate-hashes --no-emit-index-url --no-header $(ARGS)

# The text travels in the environment, unread by make and the shell: `value` does not expand
# dollars, and unexport keeps make from expanding the original for the programs it starts; it
# comes last because it makes a variable defined.
ifneq ($(origin TEXT),undefined)
SAY_TEXT := $(value TEXT)
export SAY_TEXT
else
unexport SAY_TEXT
endif
SAY_OUT := $(value OUT)
SAY_VOICE := $(value VOICE)
export SAY_OUT SAY_VOICE
unexport TEXT OUT VOICE

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

up: setup sound ## start engine, player and HTTP endpoint; Ctrl-C ends them
	@also=$$($(PYTHON) -m http_compat.wyoming --wanted) && \
		PATH="$$PWD/.venv/bin:$$PATH" exec $(PYTHON) -m honcho start engine player http $$also

test: dev assets test-sound test-node ## run the tests; ARGS="-k name" are pytest's
	@exec $(PYTHON) -m pytest $(SPREAD) $(ARGS)

soak: dev ## run the long load tests, which `make test` leaves out
	@exec $(PYTHON) -m pytest -m soak $(ARGS)

say: setup ## speak TEXT="..." or standard input; OUT=x.wav writes a file, VOICE=af_heart
	@exec scripts/say.sh

setup: environment assets ## make the environment and fetch model and voices; EXTRAS=ja,zh are languages

lint: dev ## check style and types
	@$(PYTHON) -m ruff check
	@$(PYTHON) -m ruff format --check
	@$(PYTHON) -m mypy --strict $(PACKAGES)

raycast: test-node ## check, build and test the Raycast extension
	@command -v npm >/dev/null 2>&1 || { echo "make raycast needs Node with npm: install it first." >&2; exit 1; }
	@cd clients/raycast && npm run -s check

pictures: dev assets test-sound ## take the pictures of the browser page in docs/ anew
	@exec $(PYTHON) -m tests.page.pictures docs

bench: dev assets bench-texts ## measure everything in ten minutes; ARGS=first_audio one thing, at length
	@exec $(PYTHON) -m bench $(if $(ARGS),$(ARGS),--quick)

lock: ## resolve the dependencies anew with uv; ARGS=--upgrade takes new versions
	@command -v $(UV) >/dev/null 2>&1 || { echo "make lock needs uv: install it first." >&2; exit 1; }
	$(COMPILE) pyproject.toml -o requirements/run.lock
	$(COMPILE) --extra dev --extra ja --extra zh pyproject.toml -o requirements/dev.lock
	for extra in ja zh; do \
		$(COMPILE) -c requirements/dev.lock --extra $$extra pyproject.toml \
			$$(awk -F == '/^[a-z0-9-]+==/{print "--no-emit-package", $$1}' requirements/run.lock) \
			-o requirements/$$extra.lock || exit 1; \
	done

clean: ## remove the environment and all caches of this checkout, not model and voices
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis tests/node/node_modules
	cd clients/raycast && rm -rf node_modules dist .tests raycast-env.d.ts
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------ steps of the above

environment:
	@scripts/environment.sh run

dev:
	@scripts/environment.sh dev

assets:
	@$(PYTHON) -m engine --assets >/dev/null

sound:
	@scripts/system.sh run

test-sound:
	@scripts/system.sh test

bench-texts:
	@scripts/system.sh bench

test-node: test-sound
	@scripts/node.sh
