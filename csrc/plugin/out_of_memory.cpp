#include "plugin/out_of_memory.hpp"

#include <cstdio>

namespace pgmo::plugin {
namespace {

// "20.00 MiB", as torch writes sizes.
std::string binary_units(std::size_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes <= 1024) return std::to_string(bytes) + " bytes";
  double amount = static_cast<double>(bytes) / 1024;
  int unit = 0;
  for (; amount >= 1024 && unit < 3; ++unit) amount /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %s", amount, kUnits[unit]);
  return text;
}

}  // namespace

std::string describe_out_of_memory(const DeviceMemory& memory, std::size_t bytes,
                                   std::size_t graphs, const pgmo_engine_statistics* engine,
                                   const std::string& advice) {
  const DeviceMemory::Levels levels = memory.levels();
  std::string text = "CUDA out of memory. Tried to allocate " + binary_units(bytes) + ". GPU " +
                     std::to_string(memory.ordinal()) + " has a total capacity of " +
                     binary_units(levels.total) + " of which " + binary_units(levels.free) +
                     " is free.";
  if (levels.allowed != 0) text += " " + binary_units(levels.allowed) + " allowed.";
  text += " The driver's memory pool holds " + binary_units(levels.reserved) +
          " for this process, of which " + binary_units(levels.used) + " are in use";
  if (graphs != 0) text += "; captured graphs hold " + binary_units(graphs);
  text += ".";
  if (engine != nullptr && engine->arena_bytes != 0) {
    text += " pgmo's arenas hold " + binary_units(engine->arena_bytes) + ", of which " +
            binary_units(engine->live_slot_bytes) +
            " are in use; blocks outside the plan that pgmo knows of hold " +
            binary_units(engine->live_fallback_bytes) + ".";
    if (engine->region_bytes != 0) {
      text += " Its regions of long-lived blocks hold " + binary_units(engine->region_bytes) + ".";
    }
  }
  if (!advice.empty()) text += " " + advice;
  return text;
}

}  // namespace pgmo::plugin
