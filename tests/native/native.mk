# Native tests of engine, pages, packing, alignment and recomputation. They need only a C++20 compiler.
#
#   make native-test     build with -O2, run all tests, and run the attacks in full length
#   make -j2 sanitize    run shorter attacks under AddressSanitizer + UBSan and under ThreadSanitizer
#   make -j4 native-attack ATTACK_SEEDS="1 2 3 4" ATTACK_EVENTS=1000000000
#                        run the attacks on pages, with a process for each seed
#
# The top-level Makefile includes this file. It also works alone: make -f tests/native/native.mk native-test

comma = ,
CXX ?= g++
NATIVE_OUT ?= build/native
# With a precompiled header, GCC 12 reports false array-bounds and stringop-overflow warnings in its own
# string library.
NATIVE_WARNINGS = -Wall -Wextra -Wshadow -Wconversion -Wno-array-bounds -Wno-stringop-overflow
# Enable all assertions of csrc/checks.hpp.
NATIVE_BASE = -std=c++20 -pthread -DPGMO_CHECKS=3 $(NATIVE_WARNINGS)
NATIVE_INCLUDES = -Icsrc -Itests/native/support -Itests/native/attacks -Itests/native/attacks/pages -Itests/native/attacks/order

# Each source file, in any folder, is a program of the same name.
NATIVE_SOURCES = $(wildcard tests/native/*.cpp tests/native/*/*.cpp)
NATIVE_PROGRAMS = $(sort $(basename $(notdir $(NATIVE_SOURCES))))
NATIVE_TESTS = $(filter test_%,$(NATIVE_PROGRAMS))
NATIVE_FUZZES = $(filter fuzz_%,$(NATIVE_PROGRAMS))
vpath test_%.cpp $(sort $(dir $(NATIVE_SOURCES)))
vpath fuzz_%.cpp $(sort $(dir $(NATIVE_SOURCES)))
NATIVE_ENGINE = $(sort $(wildcard csrc/engine/*.cpp csrc/engine/*/*.cpp))
NATIVE_PAGES = $(sort $(wildcard csrc/pages/*.cpp csrc/pages/*/*.cpp))
NATIVE_RECOMPUTE = $(patsubst csrc/recompute/%.cpp,%,$(sort $(wildcard csrc/recompute/*.cpp)))
NATIVE_ALIGNMENT = $(sort $(wildcard csrc/alignment/*.cpp))
NATIVE_PACKING = $(patsubst csrc/packing/%.cpp,%,$(sort $(wildcard csrc/packing/*.cpp csrc/packing/*/*.cpp)))

# Number of events of an attack under a sanitizer, which makes it ten times slower; number of forks of fuzz_forks.
SANITIZE_EVENTS ?= 1500000
SANITIZE_FORKS ?= 500

# One source file that includes all sources of a folder takes a third of the time to compile, because most
# of the time is spent on headers. Sources of csrc/packing and csrc/recompute define equal names, so they
# are compiled one by one.
$(NATIVE_OUT)/engine.cpp: $(NATIVE_ENGINE)
$(NATIVE_OUT)/pages.cpp: $(NATIVE_PAGES)
$(NATIVE_OUT)/alignment.cpp: $(NATIVE_ALIGNMENT)
$(NATIVE_OUT)/engine.cpp $(NATIVE_OUT)/pages.cpp $(NATIVE_OUT)/alignment.cpp:
	@mkdir -p $(@D)
	@printf '#include "%s"\n' $(^:csrc/%=%) > $@

# Rules for one kind of build. $(1): its name; $(2): its flags. Programs are $(NATIVE_OUT)/NAME/PROGRAM.
define native_build
$(NATIVE_OUT)/$(1)/common.hpp.gch: tests/native/support/common.hpp tests/native/native.mk
	@mkdir -p $$(@D)
	@cp $$< $$(@D)
	$(CXX) $(NATIVE_BASE) $(2) -x c++-header $$< -o $$@
NATIVE_COMPILE_$(1) = $(CXX) $(NATIVE_BASE) -MMD -MP -MF $$@.d $(2) -include $(NATIVE_OUT)/$(1)/common.hpp \
  $(NATIVE_INCLUDES) -c $$< -o $$@
$(NATIVE_OUT)/$(1)/packing/%.o: csrc/packing/%.cpp $(NATIVE_OUT)/$(1)/common.hpp.gch
	@mkdir -p $$(@D)
	$$(NATIVE_COMPILE_$(1)) -Wno-conversion
$(NATIVE_OUT)/$(1)/recompute/%.o: csrc/recompute/%.cpp $(NATIVE_OUT)/$(1)/common.hpp.gch
	@mkdir -p $$(@D)
	$$(NATIVE_COMPILE_$(1))
$(NATIVE_OUT)/$(1)/%.o: $(NATIVE_OUT)/%.cpp $(NATIVE_OUT)/$(1)/common.hpp.gch
	$$(NATIVE_COMPILE_$(1))
$(NATIVE_OUT)/$(1)/%.o: %.cpp $(NATIVE_OUT)/$(1)/common.hpp.gch
	$$(NATIVE_COMPILE_$(1))
$(NATIVE_TESTS:%=$(NATIVE_OUT)/$(1)/%) $(NATIVE_FUZZES:%=$(NATIVE_OUT)/$(1)/%): \
  $(NATIVE_OUT)/$(1)/%: $(NATIVE_OUT)/$(1)/%.o $(NATIVE_OUT)/$(1)/engine.o $(NATIVE_OUT)/$(1)/pages.o
	$(CXX) -pthread $(2) $$^ -o $$@
$(NATIVE_OUT)/$(1)/test_exact_packing: $(NATIVE_PACKING:%=$(NATIVE_OUT)/$(1)/packing/%.o)
$(NATIVE_OUT)/$(1)/test_recompute: $(NATIVE_RECOMPUTE:%=$(NATIVE_OUT)/$(1)/recompute/%.o)
$(NATIVE_OUT)/$(1)/test_alignment: $(NATIVE_OUT)/$(1)/alignment.o
.PHONY: native-$(1)
native-$(1): $(NATIVE_TESTS:%=$(NATIVE_OUT)/$(1)/%) $(NATIVE_FUZZES:%=$(NATIVE_OUT)/$(1)/%)
-include $(wildcard $(NATIVE_OUT)/$(1)/*.o.d $(NATIVE_OUT)/$(1)/*/*.o.d)
endef

$(eval $(call native_build,release,-O2))
$(eval $(call native_build,address,-O1 -g -fno-omit-frame-pointer -fsanitize=address$(comma)undefined \
  -fno-sanitize-recover=all))
$(eval $(call native_build,thread,-O1 -g -fno-omit-frame-pointer -fsanitize=thread))

# --- mutants: attacks must detect broken code -----------------------------------------------------
#
# Each line of a list breaks a copy of one source file, and the attack must fail. See mutants.sh.

$(NATIVE_OUT)/mutants_%: $(wildcard tests/native/mutants/* tests/native/attacks/*.* \
  tests/native/attacks/*/* tests/native/support/* csrc/*.hpp csrc/engine/* csrc/engine/*/* csrc/pages/* csrc/pages/*/* csrc/adapters/cuda/graphs/* csrc/adapters/cuda/pools/*)
	@mkdir -p $(@D)
	CXX="$(CXX)" sh tests/native/mutants/mutants.sh build $@ $*

.PHONY: native-mutants
native-mutants: $(NATIVE_OUT)/mutants_engine $(NATIVE_OUT)/mutants_pages $(NATIVE_OUT)/mutants_paged $(NATIVE_OUT)/mutants_order \
  $(NATIVE_OUT)/mutants_forks $(NATIVE_OUT)/mutants_graphs $(NATIVE_OUT)/mutants_invariants
	@$(foreach kind,engine pages paged order forks graphs invariants,for mutant in \
	  $$(sed -n 's/^\([a-z_]*\) .*/\1/p' tests/native/mutants/$(kind).txt); do \
	  sh tests/native/mutants/mutants.sh run $(NATIVE_OUT)/mutants_$(kind) $$mutant $(kind) || exit 1; done; )

# --- targets --------------------------------------------------------------------------------------

.PHONY: native-test
native-test: native-release  ## run every native test, and the attacks in full length
	@for test in $(NATIVE_TESTS) $(NATIVE_FUZZES); do \
	  echo "== $$test"; $(NATIVE_OUT)/release/$$test || exit 1; done
	@echo "== fuzz_replay with PGMO_CHECK=1"; \
	  PGMO_CHECK=1 $(NATIVE_OUT)/release/fuzz_replay --seed 2 --events 2000000
	@$(MAKE) --no-print-directory -f $(firstword $(MAKEFILE_LIST)) native-mutants

ATTACKS ?= fuzz_pages fuzz_paged fuzz_order
ATTACK_SEEDS ?= 1 2
ATTACK_EVENTS ?= 100000000
ATTACK_KIND ?= release

.PHONY: native-attack $(ATTACK_SEEDS:%=native-attack-%)
native-attack: $(ATTACK_SEEDS:%=native-attack-%)  ## run the attacks on pages, with ATTACK_EVENTS events
$(ATTACK_SEEDS:%=native-attack-%): native-attack-%: $(ATTACKS:%=$(NATIVE_OUT)/$(ATTACK_KIND)/%)
	@for attack in $(ATTACKS); do \
	  echo "== $$attack --seed $*"; \
	  $(NATIVE_OUT)/$(ATTACK_KIND)/$$attack --seed $* --events $(ATTACK_EVENTS) || exit 1; done

# Digest of the sources that the sanitizers check, and of the mutants, without comments and whitespace.
# The file sanitized.sha256 has the digest of the sources that have passed `make sanitize`. If both digests are
# equal, .ci/run skips the sanitizers.
SANITIZED = tests/native/sanitized.sha256
SANITIZED_DIGEST = (find csrc/*.hpp csrc/alignment csrc/engine csrc/pages csrc/packing csrc/recompute csrc/adapters/cuda/graphs csrc/adapters/cuda/pools tests/native \
  -name '*.[ch]pp' -o -name '*.h' -o -path '*/mutants/*' | LC_ALL=C sort \
  | xargs sed -z 's,//[^\n]*,,g; s,/\*\([^*]\|\*\+[^*/]\)*\*\+/,,g'; sed 's,\#\# .*,,; /^\#/d' tests/native/native.mk) | tr -d '[:space:]' | sha256sum
.PHONY: sanitized-digest is-sanitized
sanitized-digest:
	@$(SANITIZED_DIGEST)
is-sanitized:
	@$(SANITIZED_DIGEST) | cmp -s - $(SANITIZED)

# fuzz_replay and test_engine replace operator new, which works with both sanitizers.
SANITIZERS = address thread
.PHONY: sanitize $(SANITIZERS:%=sanitize-%)
sanitize: $(SANITIZERS:%=sanitize-%) native-mutants  ## run shorter native tests under ASan+UBSan and TSan, and all mutants
	@$(SANITIZED_DIGEST) > $(SANITIZED)
$(SANITIZERS:%=sanitize-%): sanitize-%: native-%
	@export ASAN_OPTIONS=halt_on_error=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  TSAN_OPTIONS=halt_on_error=1; \
	for test in $(NATIVE_TESTS); do \
	  echo "== $$test ($*)"; $(NATIVE_OUT)/$*/$$test || exit 1; done; \
	for fuzz in $(NATIVE_FUZZES); do \
	  echo "== $$fuzz ($*)"; \
	  events=$(SANITIZE_EVENTS); if [ $$fuzz = fuzz_forks ]; then events=$(SANITIZE_FORKS); fi; \
	  $(NATIVE_OUT)/$*/$$fuzz --events $$events || exit 1; done
