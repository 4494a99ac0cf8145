# Every target works alone on a fresh Debian with Python 3.11, g++ and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
NATIVE := build/native
SANITIZED := build/sanitize
EXTENSION := $(shell $(PYTHON) -c "import sysconfig; print('_native' + sysconfig.get_config_var('EXT_SUFFIX'))")
CPP_FILES = $(shell find csrc -name '*.cpp' -o -name '*.hpp')
LOCKED := mkdir -p build && flock build/.lock $(MAKE) --no-print-directory

.PHONY: build test lint demo bench sanitize format clean browser sanitized compiled locked-build locked-sanitize

build:
	@$(LOCKED) --jobs=2 locked-build

test: build browser
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The playground's page is tested in headless Chromium.
browser:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
	  { echo "make test: expected chromium in PATH, and could not install it; install the package chromium" >&2; exit 1; }

# Kernels of one instruction set may share no inline function with other code: the linker keeps one copy of each,
# which might then be the one that this CPU cannot run.
ISA_OBJECTS = $(wildcard $(NATIVE)/CMakeFiles/verispec_core.dir/csrc/kernels/isa_*.o)

lint: build
	@! nm -C $(ISA_OBJECTS) | grep -E ' [WVu] ' | grep -vE 'verispec::(portable|avx2|avx512)::'
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/clang-format --dry-run --Werror $(CPP_FILES)

demo: build
	$(BIN)/verispec demo

bench: build
	@$(LOCKED) $(VENV)/.bench
	$(BIN)/python -m benchmarks

SANITIZED_TESTS = ASAN_OPTIONS=detect_leaks=0 \
  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
  PYTHONPATH=$(SANITIZED)/python:$$($(BIN)/python -c "import site; print(site.getsitepackages()[0])") \
  $(BIN)/python -S -m pytest -p no:cacheprovider

# The kernels and the runtime under AddressSanitizer and UndefinedBehaviorSanitizer, the pool under ThreadSanitizer. They
# run in a copy of the package, whose own extension stays away and whose compiled modules may be being written.
sanitize: build sanitized
	@rm -rf $(SANITIZED)/python && mkdir -p $(SANITIZED)/python
	@cd src && find verispec -type f ! -path '*/__pycache__/*' ! -name '_native*.so' -exec \
	  cp --parents -t ../$(SANITIZED)/python {} +
	@cp $(SANITIZED)/$(EXTENSION) $(SANITIZED)/python/verispec/$(EXTENSION)
	build/thread_pool_races
	$(SANITIZED_TESTS) tests/test_native_[a-o]*.py & first=$$!; \
	  $(SANITIZED_TESTS) tests/test_native_[p-z]*.py; second=$$?; wait $$first && exit $$second

# What that runs, compiled: minutes, which continuous integration has beside its tests. It leaves src/ alone.
sanitized:
	@mkdir -p build && flock build/.sanitize-lock $(MAKE) --no-print-directory locked-sanitize

format:
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_FILES)

clean:
	rm -rf build dist src/verispec/_native*.so

# The environment is made once and again when pyproject.toml changes. What compiles the extension is installed first, so
# that the rest is fetched meanwhile.
$(VENV)/.compiling: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "scikit-build-core>=0.10" "nanobind>=2.4" cmake ninja
	touch $@

$(VENV)/.installed: $(VENV)/.compiling
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
	  -C wheel.cmake=false -C editable.mode=inplace -e ".[dev]"
	touch $@

$(VENV)/.bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "matplotlib>=3.8"
	touch $@

# The extension is rebuilt incrementally and put in place by a rename, so that running processes keep the one they loaded.
locked-build: $(VENV)/.installed compiled
	@cmp -s $(NATIVE)/$(EXTENSION) src/verispec/$(EXTENSION) || \
	  { cp $(NATIVE)/$(EXTENSION) build/.$(EXTENSION) && mv -f build/.$(EXTENSION) src/verispec/$(EXTENSION); }

compiled: $(VENV)/.compiling
	@test -f $(NATIVE)/build.ninja || PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cmake -S . -B $(NATIVE) -G Ninja \
	  -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" --log-level=WARNING
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cmake --build $(NATIVE) --parallel 2

locked-sanitize: $(VENV)/.compiling build/thread_pool_races
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cmake -S . -B $(SANITIZED) -G Ninja -DVERISPEC_SANITIZE=ON \
	  -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" --log-level=WARNING
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cmake --build $(SANITIZED) --parallel 2

build/thread_pool_races: tests/thread_pool_races.cpp $(wildcard csrc/runtime/thread_pool.*)
	$(CXX) -std=c++17 -O1 -g -fsanitize=thread tests/thread_pool_races.cpp csrc/runtime/thread_pool.cpp -pthread -o $@
