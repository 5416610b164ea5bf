#!/bin/sh
# Builds and runs the attack on a deliberately broken engine; see mutants.txt.
#
#   PLAIN=OBJECTS mutant.sh build NAME PROGRAM
#   mutant.sh run NAME PROGRAM      succeeds when the oracle notices
set -eu
here=$(dirname "$0")
engine=$here/../../csrc
action=$1 name=$2 program=$3

if [ "$action" = run ]; then
  if output=$("$program" --events 12000000); then
    echo "mutant $name: the oracle noticed nothing" >&2
    exit 1
  fi
  case $output in
    *VIOLATION*) echo "mutant $name: $(echo "$output" | head -n 1)" ;;
    *) echo "mutant $name ended without a violation: $output" >&2; exit 1 ;;
  esac
  exit 0
fi

line=$(sed -n "s/^$name //p" "$here/mutants.txt")
file=${line%% *} change=${line#* }
copy=$program.sources
rm -rf "$copy"
mkdir -p "$copy/engine"
sed -E "$change" "$engine/engine/$file" > "$copy/engine/$file"
if cmp -s "$engine/engine/$file" "$copy/engine/$file"; then
  echo "mutant $name changes nothing in $file: mutants.txt is out of date" >&2
  exit 1
fi
compile="${CXX:-g++} -std=c++20 -w -pthread"
case $file in
  *.cpp)  # all but this file is as it is in the sound program, whose objects are in $PLAIN
    part=${file%.cpp}
    sound=$(find "$PLAIN/engine" -name '*.o' ! -name "$part.o")
    $compile -O1 -I"$engine" "$copy/engine/$file" "$PLAIN/fuzz_replay.o" $sound -o "$program"
    ;;
  *)
    cp -rn "$engine/engine" "$engine/types.hpp" "$copy/"
    $compile -O0 -I"$copy" -I"$here" "$here/fuzz_replay.cpp" "$copy"/engine/*.cpp -o "$program"
    ;;
esac
