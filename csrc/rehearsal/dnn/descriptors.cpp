// Stub of cuDNN's backend interface, which its frontend calls for everything.

#include "descriptors.hpp"

#include <algorithm>
#include <cstring>

#include "../state.hpp"

namespace fakecuda::dnn {

size_t bytes_of(int data_type) {
  switch (data_type) {
    case kFloat:
    case 4:  // int32
      return 4;
    case kDouble:
    case 10:  // int64
      return 8;
    case kHalf:
    case kBfloat16:
      return 2;
    default:
      return 1;
  }
}

const Value* Descriptor::find(int attribute) const {
  const auto found = values.find(attribute);
  return found == values.end() ? nullptr : &found->second;
}

Shared Descriptor::descriptor(int attribute) const {
  const Value* value = find(attribute);
  return value && !value->descriptors.empty() ? value->descriptors.front() : nullptr;
}

std::vector<int64_t> Descriptor::numbers(int attribute) const {
  const Value* value = find(attribute);
  if (!value || value->bytes.size() < static_cast<size_t>(value->count) * sizeof(int64_t))
    return {};
  std::vector<int64_t> read(static_cast<size_t>(value->count));
  std::memcpy(read.data(), value->bytes.data(), read.size() * sizeof(int64_t));
  return read;
}

int64_t Descriptor::number(int attribute, int64_t otherwise) const {
  const Value* value = find(attribute);
  if (!value || value->bytes.empty()) return otherwise;
  int64_t read = 0;
  std::memcpy(&read, value->bytes.data(), std::min(sizeof read, value->bytes.size()));
  return read;
}

void Descriptor::set_number(int attribute, int64_t number) {
  Value value{.count = 1};
  value.bytes.resize(sizeof number);
  std::memcpy(value.bytes.data(), &number, sizeof number);
  values[attribute] = value;
}

void Descriptor::set_descriptors(int attribute, std::vector<Shared> descriptors) {
  const auto count = static_cast<int64_t>(descriptors.size());
  values[attribute] = {.count = count, .bytes = {}, .descriptors = std::move(descriptors)};
}

namespace {

constexpr int kSuccess = 0, kBadParameter = 2000;

// Return the bytes of an element by cuDNN's number of its type. Types that are not listed are
// enumerations, which are ints.
size_t element_size(int type) {
  switch (type) {
    case 0:  // a handle
    case 3:  // int64
    case 5:  // double
    case 6:  // a pointer
    case kIsDescriptor:
    case 26:  // a fraction
      return 8;
    case 2:   // bool
    case 24:  // char
      return 1;
    default:
      return 4;
  }
}

// Compute the attributes that cuDNN derives when a descriptor is finalized: results of heuristics,
// and the workspace of a plan.
void complete(Descriptor& made) {
  if (made.kind == kHeuristics) {
    constexpr int kFallback = 2;
    std::vector<Shared> found = configurations(made.descriptor(kHeuristicsGraph));
    if (made.number(kHeuristicsMode, 0) == kFallback && found.size() > 1)
      found.erase(found.begin());
    made.set_descriptors(kHeuristicsResults, std::move(found));
  }
  if (made.kind == kPlan) {
    const Shared configuration = made.descriptor(kPlanConfiguration);
    if (configuration)
      made.set_number(kPlanWorkspace, configuration->number(kConfigurationWorkspace, 0));
  }
}

}  // namespace
}  // namespace fakecuda::dnn

using namespace fakecuda;
using namespace fakecuda::dnn;

extern "C" {

int cudnnBackendCreateDescriptor(int kind, void** descriptor) {
  *descriptor = new Descriptor{.kind = kind};
  return kSuccess;
}

int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Descriptor*>(descriptor);
  return kSuccess;
}

int cudnnBackendSetAttribute(void* descriptor, int attribute, int type, int64_t count,
                             const void* elements) {
  Value value{.count = count};
  if (type == kIsDescriptor) {
    const auto* given = static_cast<Descriptor* const*>(elements);
    for (int64_t at = 0; at < count; ++at)
      value.descriptors.push_back(std::make_shared<const Descriptor>(*given[at]));
  } else {
    const auto* given = static_cast<const char*>(elements);
    if (given) value.bytes.assign(given, given + static_cast<size_t>(count) * element_size(type));
  }
  static_cast<Descriptor*>(descriptor)->values[attribute] = std::move(value);
  return kSuccess;
}

int cudnnBackendFinalize(void* descriptor) {
  complete(*static_cast<Descriptor*>(descriptor));
  return kSuccess;
}

// If `elements` is null, return only their number.
int cudnnBackendGetAttribute(const void* descriptor, int attribute, int type, int64_t room,
                             int64_t* count, void* elements) {
  const Value* value = static_cast<const Descriptor*>(descriptor)->find(attribute);
  const int64_t there = value ? value->count : 0;
  if (count) *count = elements ? std::min(there, room) : there;
  if (!elements || !value) return value || count ? kSuccess : kBadParameter;
  const auto copied = static_cast<size_t>(std::min(there, room));
  if (type == kIsDescriptor) {
    auto* const* targets = static_cast<Descriptor**>(elements);
    for (size_t at = 0; at < copied && at < value->descriptors.size(); ++at)
      *targets[at] = *value->descriptors[at];
  } else {
    const size_t bytes = std::min(copied * element_size(type), value->bytes.size());
    std::memcpy(elements, value->bytes.data(), bytes);
  }
  return kSuccess;
}

int cudnnBackendExecute(void*, void* plan, void* pack) {
  const auto& given = *static_cast<const Descriptor*>(plan);
  const int64_t workspace = given.number(kPlanWorkspace, 0);
  const int64_t address = static_cast<const Descriptor*>(pack)->number(kPackWorkspace, 0);
  note_workspace(given, static_cast<size_t>(workspace), address);
  launch(nullptr);
  return kSuccess;
}
}
