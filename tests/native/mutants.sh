#!/bin/sh
# Builds the attack on all deliberately broken engines at once, and runs it on one; see mutants.txt.
#
#   mutants.sh build PROGRAM
#   mutants.sh run PROGRAM NAME      succeeds when the oracle notices
#
# One compilation, as one file, serves all: PGMO_MUTANT, the number of a line, chooses when the
# program starts. With none chosen the engine is the sound one.
set -eu
here=$(dirname "$0")
csrc=$here/../../csrc
action=$1 program=$2
mutants=$(grep -v '^#' "$here/mutants.txt")

if [ "$action" = run ]; then
  name=$3
  number=$(printf "%s\n" "$mutants" | grep -n "^$name " | cut -d: -f1)
  if output=$(PGMO_MUTANT=${number:?no such mutant} "$program" --events 12000000); then
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
mkdir -p "$copy"
cp -r "$csrc/engine" "$csrc/types.hpp" "$copy/"
number=0
printf "%s\n" "$mutants" | while read -r name file change; do
  number=$((number + 1))
  change=$(printf "%s" "$change" |
    sed "s/BROKEN/(chosen_mutant == $number)/g; s/SOUND/(chosen_mutant != $number)/g")
  sed -E "$change" "$copy/engine/$file" > "$copy/changed"
  if cmp -s "$copy/engine/$file" "$copy/changed"; then
    echo "mutant $name changes nothing in $file: mutants.txt is out of date" >&2
    exit 1
  fi
  mv "$copy/changed" "$copy/engine/$file"
done
{
  echo '#include <cstdlib>'
  echo 'static const int chosen_mutant = std::atoi(std::getenv("PGMO_MUTANT") ?: "0");'
  echo '#include "fuzz_replay.cpp"'
  (cd "$copy" && printf '#include "%s"\n' engine/*.cpp engine/*/*.cpp)
} > "$copy/attack.cpp"
${CXX:-g++} -std=c++20 -w -pthread -O1 -I"$copy" -I"$here" "$copy/attack.cpp" -o "$program"
