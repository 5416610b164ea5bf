#!/bin/sh
# Builds an attack with all mutants (deliberately broken code) at once, and runs it with one; see engine.txt.
#
#   mutants.sh build PROGRAM KIND
#   mutants.sh run PROGRAM NAME KIND      succeeds if the oracle detects the mutant
#
#   KIND      mutants       sources         attack
#   engine    engine.txt    csrc/engine     fuzz_replay
#   pages     pages.txt     csrc/pages      fuzz_pages
#   paged     paged.txt     both            fuzz_paged
#   order     order.txt     both            fuzz_order
#   forks     forks.txt     both            fuzz_forks
#   graphs    graphs.txt    csrc/adapters/cuda/graphs, pools   fuzz_graphs
#
#   invariants   invariants.txt   both      fuzz_paged, with all assertions of csrc/checks.hpp
#
# All mutants are compiled into one program. The environment variable PGMO_MUTANT, the number of a line,
# chooses one when the program starts. Without it, the code is not broken.
set -eu
here=$(dirname "$0")
csrc=$here/../../../csrc attacks=$here/../attacks
action=$1 program=$2
for kind in "$@"; do :; done
case $kind in
  engine) prefix=engine/ attack=fuzz_replay events=24000000 ;;
  pages) prefix=pages/ attack=fuzz_pages events=1200000 ;;
  paged) prefix= attack=fuzz_paged events=6000000 ;;
  order) prefix= attack=fuzz_order events=6000000 ;;
  forks) prefix= attack=fuzz_forks events=4000 ;;
  graphs) prefix=adapters/cuda/graphs/ attack=fuzz_graphs events=1000000 ;;
  invariants) prefix= attack=fuzz_paged events=600000 ;;
esac
list=$kind.txt
mutants=$(grep -v '^#' "$here/$list")

if [ "$action" = run ]; then
  name=$3
  number=$(printf "%s\n" "$mutants" | grep -n "^$name " | cut -d: -f1)
  if output=$(PGMO_MUTANT=${number:?no such mutant} FUZZ_FORKS_WATCHDOG=10 "$program" --events $events 2>&1); then
    echo "mutant $name: the oracle noticed nothing" >&2
    exit 1
  fi
  case $output in
    *VIOLATION*) echo "mutant $name: $(echo "$output" | head -n 1)" ;;
    *) echo "mutant $name ended without a violation: $output" >&2; exit 1 ;;
  esac
  exit 0
fi

copy=$program.sources
rm -rf "$copy"
mkdir -p "$copy/adapters/cuda"
cp -r "$csrc/engine" "$csrc/pages" "$csrc"/*.hpp "$copy/"
cp -r "$csrc/adapters/cuda/graphs" "$csrc/adapters/cuda/pools" "$copy/adapters/cuda/"
number=0
printf "%s\n" "$mutants" | while read -r name file change; do
  number=$((number + 1))
  change=$(printf "%s" "$change" |
    sed "s/BROKEN/(chosen_mutant == $number)/g; s/SOUND/(chosen_mutant != $number)/g")
  sed -E "$change" "$copy/$prefix$file" > "$copy/changed"
  if cmp -s "$copy/$prefix$file" "$copy/changed"; then
    echo "mutant $name changes nothing in $file: $list is out of date" >&2
    exit 1
  fi
  mv "$copy/changed" "$copy/$prefix$file"
done
{
  echo '#include <cstdlib>'
  echo 'static const int chosen_mutant = std::atoi(std::getenv("PGMO_MUTANT") ?: "0");'
  echo "#include \"$attack.cpp\""
  (cd "$copy" && find engine pages -name '*.cpp' | sort | sed 's/.*/#include "&"/')
} > "$copy/attack.cpp"
checks=0  # the oracle must detect the mutant without assertions
if [ "$kind" = invariants ]; then checks=3; fi
${CXX:-g++} -std=c++20 -DPGMO_CHECKS=$checks -w -pthread -O1 -I"$copy" -I"$here/../support" -I"$attacks" \
  -I"$attacks/pages" -I"$attacks/order" "$copy/attack.cpp" -o "$program"
