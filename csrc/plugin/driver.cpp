#include "plugin/driver.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace pgmo::plugin {
namespace {

// The number behind `.so` keeps the toolkit's stub library, which can do nothing, from being found.
constexpr const char* kLibrary = "libcuda.so.1";

template <typename Function>
void find(void* library, const char* name, const char* symbol, Function*& field) {
  field = reinterpret_cast<Function*>(dlsym(library, symbol));
  if (field != nullptr) return;
  throw std::runtime_error(std::string("pgmo: the CUDA driver (") + name + ") has no " + symbol +
                           "; the plug-in needs the driver of CUDA 11.3 or later");
}

Driver load() {
  const char* chosen = std::getenv("PGMO_LIBCUDA");
  const char* name = chosen != nullptr && *chosen != '\0' ? chosen : kLibrary;
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(std::string("pgmo: the CUDA driver cannot be loaded: ") + dlerror());
  }
  Driver table;
#define PGMO_FIND(field, symbol, parameters) find(library, name, #symbol, table.field);
  PGMO_DRIVER_FUNCTIONS(PGMO_FIND)
#undef PGMO_FIND
  check(table, table.init(0), "cuInit");
  return table;
}

}  // namespace

const Driver& driver() {
  static const Driver table = load();  // tried again at the next call if it throws
  return table;
}

void check(const Driver& driver, Result result, const char* call) {
  if (result == kSuccess) return;
  const char* name = nullptr;
  (void)driver.error_name(result, &name);
  throw std::runtime_error(std::string("CUDA error: ") + call + " failed with " +
                           (name != nullptr ? name : std::to_string(result)));
}

DriverScope::DriverScope(const Driver& driver, Context context) noexcept : driver_(driver) {
  Context current = nullptr;
  (void)driver.current_context(&current);
  if (current != context) pushed_ = driver.push_context(context) == kSuccess;
  if (active_pools.load(std::memory_order_acquire) != 0) {
    relaxed_ = driver.exchange_capture_mode(&mode_) == kSuccess;
  }
}

DriverScope::~DriverScope() {
  if (relaxed_) (void)driver_.exchange_capture_mode(&mode_);
  Context popped = nullptr;
  if (pushed_) (void)driver_.pop_context(&popped);
}

}  // namespace pgmo::plugin
