# Tests of the engine, of exact packing and of recomputation: plain C++20, nothing but a compiler.
#
#   make native-test     build with -O2 and run everything, the attacks in full length included
#   make sanitize        the same under AddressSanitizer + UBSan and under ThreadSanitizer
#
# Works from the top-level Makefile, and alone: make -f tests/native/native.mk native-test

comma = ,
CXX ?= g++
NATIVE_OUT ?= build/native
NATIVE_WARNINGS = -Wall -Wextra -Wshadow -Wconversion
NATIVE_BASE = -std=c++20 -g -pthread $(NATIVE_WARNINGS) -MMD -MP
NATIVE_INCLUDES = -Icsrc -Itests/native

NATIVE_TESTS = $(patsubst tests/native/%.cpp,%,$(sort $(wildcard tests/native/test_*.cpp)))
NATIVE_FUZZES = fuzz_replay fuzz_threads
NATIVE_ENGINE = $(patsubst csrc/engine/%.cpp,%,$(sort $(wildcard csrc/engine/*.cpp)))

NATIVE_PACKING = $(patsubst csrc/packing/%.cpp,%,$(sort $(wildcard csrc/packing/*.cpp)))
NATIVE_RECOMPUTE = $(patsubst csrc/recompute/%.cpp,%,$(sort $(wildcard csrc/recompute/*.cpp)))

# Events of the attacks under a sanitizer, which makes them ten times slower.
SANITIZE_EVENTS ?= 1500000

# One kind of build: $(1) its name, $(2) its flags. Programs are $(NATIVE_OUT)/NAME/PROGRAM.
define native_build
$(NATIVE_OUT)/$(1)/engine/%.o: csrc/engine/%.cpp
	@mkdir -p $$(@D)
	$(CXX) $(NATIVE_BASE) $(2) $(NATIVE_INCLUDES) -c $$< -o $$@
$(NATIVE_OUT)/$(1)/packing/%.o: csrc/packing/%.cpp
	@mkdir -p $$(@D)
	$(CXX) $(filter-out -Wconversion,$(NATIVE_BASE)) $(2) $(NATIVE_INCLUDES) -c $$< -o $$@
$(NATIVE_OUT)/$(1)/recompute/%.o: csrc/recompute/%.cpp
	@mkdir -p $$(@D)
	$(CXX) $(NATIVE_BASE) $(2) $(NATIVE_INCLUDES) -c $$< -o $$@
$(NATIVE_OUT)/$(1)/%.o: tests/native/%.cpp
	@mkdir -p $$(@D)
	$(CXX) $(NATIVE_BASE) $(2) $(NATIVE_INCLUDES) -c $$< -o $$@
$(NATIVE_TESTS:%=$(NATIVE_OUT)/$(1)/%) $(NATIVE_FUZZES:%=$(NATIVE_OUT)/$(1)/%): \
  $(NATIVE_OUT)/$(1)/%: $(NATIVE_OUT)/$(1)/%.o $(NATIVE_ENGINE:%=$(NATIVE_OUT)/$(1)/engine/%.o)
	$(CXX) -pthread $(2) $$^ -o $$@
$(NATIVE_OUT)/$(1)/test_exact_packing: $(NATIVE_PACKING:%=$(NATIVE_OUT)/$(1)/packing/%.o)
$(NATIVE_OUT)/$(1)/test_recompute: $(NATIVE_RECOMPUTE:%=$(NATIVE_OUT)/$(1)/recompute/%.o)
.PHONY: native-$(1)
native-$(1): $(NATIVE_TESTS:%=$(NATIVE_OUT)/$(1)/%) $(NATIVE_FUZZES:%=$(NATIVE_OUT)/$(1)/%)
-include $(wildcard $(NATIVE_OUT)/$(1)/*.d $(NATIVE_OUT)/$(1)/engine/*.d \
  $(NATIVE_OUT)/$(1)/packing/*.d $(NATIVE_OUT)/$(1)/recompute/*.d)
endef

$(eval $(call native_build,release,-O2))
$(eval $(call native_build,plain,-O1))
$(eval $(call native_build,address,-O1 -fno-omit-frame-pointer -fsanitize=address$(comma)undefined \
  -fno-sanitize-recover=all))
$(eval $(call native_build,thread,-O1 -fno-omit-frame-pointer -fsanitize=thread))

# --- the oracle notices a broken engine -----------------------------------------------------------
#
# Each line of mutants.txt breaks a copy of one source file of the engine; the attack has to fail.

NATIVE_MUTANTS = $(shell sed -n 's/^\([a-z_]*\) .*/\1/p' tests/native/mutants.txt)

$(NATIVE_OUT)/mutants/%: tests/native/mutant.sh tests/native/mutants.txt \
  $(wildcard csrc/engine/*) $(wildcard tests/native/*.hpp) $(NATIVE_OUT)/plain/fuzz_replay.o \
  $(NATIVE_ENGINE:%=$(NATIVE_OUT)/plain/engine/%.o)
	@mkdir -p $(@D)
	CXX="$(CXX)" PLAIN=$(NATIVE_OUT)/plain sh tests/native/mutant.sh build $* $@

.PHONY: native-mutants
native-mutants: $(NATIVE_MUTANTS:%=$(NATIVE_OUT)/mutants/%)
	@for mutant in $(NATIVE_MUTANTS); do \
	  sh tests/native/mutant.sh run $$mutant $(NATIVE_OUT)/mutants/$$mutant || exit 1; done

# --- what to type ---------------------------------------------------------------------------------

.PHONY: native-test
native-test: native-release  ## the engine: every native test, the attacks in full length
	@for test in $(NATIVE_TESTS) $(NATIVE_FUZZES); do \
	  echo "== $$test"; $(NATIVE_OUT)/release/$$test || exit 1; done
	@echo "== fuzz_replay with PGMO_CHECK=1"; \
	  PGMO_CHECK=1 $(NATIVE_OUT)/release/fuzz_replay --seed 2 --events 2000000
	@$(MAKE) --no-print-directory -f $(firstword $(MAKEFILE_LIST)) native-mutants

# fuzz_replay and test_engine replace operator new, which is fine with both sanitizers.
.PHONY: sanitize
sanitize: native-address native-thread  ## the same under ASan+UBSan and TSan, shorter
	@export ASAN_OPTIONS=halt_on_error=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  TSAN_OPTIONS=halt_on_error=1; \
	for kind in address thread; do \
	  for test in $(NATIVE_TESTS); do \
	    echo "== $$test ($$kind)"; $(NATIVE_OUT)/$$kind/$$test || exit 1; done; \
	  for fuzz in $(NATIVE_FUZZES); do \
	    echo "== $$fuzz ($$kind)"; \
	    $(NATIVE_OUT)/$$kind/$$fuzz --events $(SANITIZE_EVENTS) || exit 1; done; done
