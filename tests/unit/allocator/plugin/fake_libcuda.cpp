// A CUDA driver for tests: real enough to catch a plug-in that uses it wrongly.
//
// Memory is pages that nobody touches, and a freed block serves the next request of its size.
// Streams complete at once unless a test holds them; a stream can be in capture. What the real
// driver would refuse or spoil counts as a violation, with its reason.

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

using Handle = void*;
using u64 = unsigned long long;

constexpr int kOk = 0, kInvalid = 1, kOutOfMemory = 2, kNoDevice = 101, kNoContext = 201,
              kNotReady = 600, kCaptureUnsupported = 900;
constexpr int kDevices = 64;
constexpr int kRelaxed = 2;
constexpr u64 kGranularity = 512;

struct Block {
  std::size_t bytes;
  int device;
  bool ordered;
  Handle stream;
};
struct Event {
  Handle stream = nullptr;
  int context = -1;
  bool pending = false;
};
struct Device {
  std::size_t capacity = 1u << 30;
  std::size_t used = 0;    // by living stream-ordered blocks
  std::size_t cached = 0;  // kept by the pool; serves other sizes only after it was trimmed
  std::multimap<std::size_t, u64> spare;
  std::size_t plain = 0;
  u64 threshold = 0;
  u64 retained = 0;
};

std::mutex mutex;
Device devices[kDevices];
std::map<u64, Block> blocks;
std::set<Event*> events;
std::set<std::pair<int, Handle>> held, capturing;
std::map<std::string, int> calls;
std::vector<std::string> violations;
thread_local std::vector<int> contexts;
thread_local int capture_mode = 0;

u64 next_address = [] {
  constexpr std::size_t kRange = std::size_t{1} << 38;
  void* range = mmap(nullptr, kRange, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return range == MAP_FAILED ? u64{1} << 44
                             : static_cast<u64>(reinterpret_cast<std::uintptr_t>(range));
}();

int context_of(Handle context) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
}
int current() {
  return contexts.empty() ? -1 : contexts.back();
}
int violation(const std::string& text, int result) {
  violations.push_back(text);
  return result;
}
bool is_capturing(Handle stream) {
  return capturing.count({current(), stream}) != 0;
}

// Calls that a capture forbids to threads that did not ask for relaxed rules.
bool is_unsafe() {
  return !capturing.empty() && capture_mode != kRelaxed;
}

int take(u64* address, std::size_t bytes, bool ordered, Handle stream) {
  const int device = current();
  if (device < 0) return violation("allocation without a context", kNoContext);
  Device& on = devices[device];
  const std::size_t rounded = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  const auto spare = on.spare.find(rounded);
  if (ordered && spare != on.spare.end()) {
    *address = spare->second;
    on.spare.erase(spare);
    on.cached -= rounded;
    on.used += rounded;
    blocks[*address] = {rounded, device, ordered, stream};
    return kOk;
  }
  if (on.used + on.cached + on.plain + rounded > on.capacity) return kOutOfMemory;
  *address = next_address;
  next_address += rounded + kGranularity;
  blocks[*address] = {rounded, device, ordered, stream};
  (ordered ? on.used : on.plain) += rounded;
  return kOk;
}

int give(u64 address, bool ordered, Handle stream) {
  const auto found = blocks.find(address);
  if (found == blocks.end()) return violation("free of memory that is not allocated", kInvalid);
  const Block block = found->second;
  if (block.ordered != ordered) return violation("free by the wrong function", kInvalid);
  if (block.stream != stream) return violation("free on another stream", kInvalid);
  if (block.device != current()) return violation("free in another device's context", kNoContext);
  Device& on = devices[block.device];
  (ordered ? on.used : on.plain) -= block.bytes;
  if (ordered) {
    on.cached += block.bytes;
    on.spare.insert({block.bytes, address});
  }
  blocks.erase(found);
  return kOk;
}

struct Call {
  explicit Call(const char* name) : guard(mutex) { ++calls[name]; }
  std::lock_guard<std::mutex> guard;
};

}  // namespace

extern "C" {

int cuInit(unsigned) {
  return kOk;
}
int cuGetErrorName(int result, const char** name) {
  *name = result == kNoDevice ? "CUDA_ERROR_INVALID_DEVICE" : "CUDA_ERROR_FAKE";
  return kOk;
}
int cuDevicePrimaryCtxRetain(Handle* context, int device) {
  const Call call("retain");
  if (device >= kDevices - 1) return kNoDevice;
  ++devices[device].retained;
  *context = reinterpret_cast<Handle>(static_cast<std::uintptr_t>(device) + 1);
  return kOk;
}
int cuCtxGetCurrent(Handle* context) {
  *context = reinterpret_cast<Handle>(static_cast<std::uintptr_t>(current() + 1));
  return kOk;
}
int cuCtxPushCurrent_v2(Handle context) {
  contexts.push_back(context_of(context));
  return kOk;
}
int cuCtxPopCurrent_v2(Handle*) {
  contexts.pop_back();
  return kOk;
}
int cuCtxSynchronize() {
  const Call call("synchronize");
  if (!capturing.empty()) return violation("synchronized during a capture", kCaptureUnsupported);
  for (Event* event : events) {
    if (event->context == current()) event->pending = false;
  }
  return kOk;
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  const Call call("info");
  const Device& on = devices[current()];
  *total = on.capacity;
  *free = on.capacity - on.used - on.cached - on.plain;
  return kOk;
}
int cuMemGetAddressRange_v2(u64* base, std::size_t* bytes, u64 address) {
  const Call call("range");
  auto found = blocks.upper_bound(address);
  if (found == blocks.begin()) return kInvalid;
  --found;
  if (address >= found->first + found->second.bytes) return kInvalid;
  *base = found->first;
  *bytes = found->second.bytes;
  return kOk;
}
int cuMemAlloc_v2(u64* address, std::size_t bytes) {
  const Call call("allocate");
  if (is_unsafe()) return violation("cuMemAlloc during a capture", kCaptureUnsupported);
  return take(address, bytes, false, nullptr);
}
int cuMemFree_v2(u64 address) {
  const Call call("free");
  if (!capturing.empty()) return violation("cuMemFree during a capture", kCaptureUnsupported);
  return give(address, false, nullptr);
}
int cuMemAllocAsync(u64* address, std::size_t bytes, Handle stream) {
  const Call call("allocate_async");
  if (is_capturing(stream)) return violation("allocation was captured", kCaptureUnsupported);
  return take(address, bytes, true, stream);
}
int cuMemFreeAsync(u64 address, Handle stream) {
  const Call call("free_async");
  if (is_capturing(stream)) return violation("free was captured", kCaptureUnsupported);
  return give(address, true, stream);
}
int cuDeviceGetDefaultMemPool(Handle* pool, int device) {
  *pool = &devices[device];
  return kOk;
}
int cuMemPoolSetAttribute(Handle pool, int attribute, void* value) {
  const Call call("set_attribute");
  if (attribute != 4) return kInvalid;
  std::memcpy(&static_cast<Device*>(pool)->threshold, value, sizeof(u64));
  return kOk;
}
int cuMemPoolGetAttribute(Handle pool, int attribute, void* value) {
  const Call call("get_attribute");
  const Device& on = *static_cast<Device*>(pool);
  const u64 level = attribute == 5 ? on.used + on.cached : on.used;
  std::memcpy(value, &level, sizeof level);
  return kOk;
}
int cuMemPoolTrimTo(Handle pool, std::size_t) {
  const Call call("trim");
  static_cast<Device*>(pool)->cached = 0;
  static_cast<Device*>(pool)->spare.clear();
  return kOk;
}
int cuEventCreate(Handle* event, unsigned) {
  const Call call("create_event");
  auto* made = new Event;
  events.insert(made);
  *event = made;
  return kOk;
}
int cuEventDestroy_v2(Handle event) {
  const Call call("destroy_event");
  events.erase(static_cast<Event*>(event));
  delete static_cast<Event*>(event);
  return kOk;
}
int cuEventRecord(Handle event, Handle stream) {
  const Call call("record_event");
  if (is_capturing(stream)) return violation("event was captured", kCaptureUnsupported);
  auto* marked = static_cast<Event*>(event);
  if (marked->pending) violation("an event was used again while it was pending", kInvalid);
  *marked = {stream, current(), held.count({current(), stream}) != 0};
  return kOk;
}
int cuEventQuery(Handle event) {
  const Call call("query_event");
  if (is_unsafe()) return violation("cuEventQuery during a capture", kCaptureUnsupported);
  return static_cast<Event*>(event)->pending ? kNotReady : kOk;
}
int cuStreamSynchronize(Handle) {
  return kOk;
}
int cuStreamIsCapturing(Handle stream, int* status) {
  const Call call("is_capturing");
  *status = is_capturing(stream);
  return kOk;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return kOk;
}

// --- for the tests
// --------------------------------------------------------------------------------

void fake_capacity(int device, std::size_t bytes) {
  const std::lock_guard guard(mutex);
  devices[device].capacity = bytes;
}
void fake_hold(int device, Handle stream) {
  const std::lock_guard guard(mutex);
  held.insert({device, stream});
}
void fake_let_go(int device, Handle stream) {
  const std::lock_guard guard(mutex);
  held.erase({device, stream});
  for (Event* event : events) {
    if (event->stream == stream && event->context == device) event->pending = false;
  }
}
void fake_capture(int device, Handle stream, int on) {
  const std::lock_guard guard(mutex);
  if (on) {
    capturing.insert({device, stream});
  } else {
    capturing.erase({device, stream});
  }
}
int fake_calls(const char* name) {
  const std::lock_guard guard(mutex);
  return calls[name];
}
// Violations since the last call; the first of them as text.
int fake_violations(char* first, std::size_t capacity) {
  const std::lock_guard guard(mutex);
  const int count = static_cast<int>(violations.size());
  first[0] = '\0';
  if (count != 0) std::strncpy(first, violations.front().c_str(), capacity - 1);
  violations.clear();
  return count;
}
std::size_t fake_used(int device, int plain) {
  const std::lock_guard guard(mutex);
  return plain ? devices[device].plain : devices[device].used;
}
std::size_t fake_cached(int device) {
  const std::lock_guard guard(mutex);
  return devices[device].cached;
}
u64 fake_threshold(int device) {
  const std::lock_guard guard(mutex);
  return devices[device].threshold;
}
u64 fake_retained(int device) {
  const std::lock_guard guard(mutex);
  return devices[device].retained;
}
int fake_is_allocated(u64 address) {
  const std::lock_guard guard(mutex);
  return blocks.count(address) != 0;
}
Handle fake_stream(u64 address) {
  const std::lock_guard guard(mutex);
  return blocks.count(address) != 0 ? blocks[address].stream : nullptr;
}
int fake_contexts() {
  return static_cast<int>(contexts.size());
}

}  // extern "C"
