// Arguments and results of PyTorch's allocator methods: made up for a call, and put into words.

#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace c10::cuda::CUDACachingAllocator::fake_beneath {

template <typename T>
struct Sample {
  static T make(int) { return T{}; }
};

// Different for different numbers, as far as the type allows.
template <typename T>
T sample(int number) {
  if constexpr (std::is_void_v<T>) {
    return;
  } else if constexpr (std::is_same_v<T, bool>) {
    return number % 2 != 0;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    return static_cast<T>(number);
  } else if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(static_cast<std::uintptr_t>(0x1000 * number));  // never looked at
  } else {
    return Sample<T>::make(number);
  }
}

template <>
struct Sample<std::string> {
  static std::string make(int number) { return "text " + std::to_string(number); }
};
template <typename T>
struct Sample<std::shared_ptr<T>> {
  static std::shared_ptr<T> make(int number) {
    return {std::shared_ptr<void>(), sample<T*>(number)};
  }
};
template <typename A, typename B>
struct Sample<std::pair<A, B>> {
  static std::pair<A, B> make(int number) { return {sample<A>(number), sample<B>(number + 1)}; }
};
template <typename T>
struct Sample<std::vector<T>> {
  static std::vector<T> make(int number) { return {sample<T>(number), sample<T>(number + 1)}; }
};
template <typename R, typename... A>
struct Sample<std::function<R(A...)>> {
  static std::function<R(A...)> make(int number) {
    return [number](A...) { return sample<R>(number); };
  }
};
template <>
struct Sample<DataPtr> {
  static DataPtr make(int number) {
    void* address = sample<void*>(number);
    return {address, address, &c10::detail::deleteNothing, Device(DeviceType::CUDA, 0)};
  }
};
template <>
struct Sample<Stream> {
  static Stream make(int number) {
    return Stream(Stream::UNSAFE, Device(DeviceType::CUDA, 0), number);
  }
};
template <typename T>
  requires requires(const T& value) { value.is_small_pool; }
struct Sample<T> {  // StreamSegmentSize, which PyTorch 2.6 lacks
  static T make(int number) { return {nullptr, true, sample<size_t>(number)}; }
};
template <>
struct Sample<CachingDeviceAllocator::DeviceStats> {
  static CachingDeviceAllocator::DeviceStats make(int number) {
    CachingDeviceAllocator::DeviceStats made;
    made.num_ooms = number;
    return made;
  }
};
template <>
struct Sample<SnapshotInfo> {
  static SnapshotInfo make(int number) {
    SnapshotInfo made;
    made.segments.resize(static_cast<size_t>(number));
    return made;
  }
};
template <>
struct Sample<CheckpointDelta> {
  static CheckpointDelta make(int number) {
    CheckpointDelta made;
    made.ptrs_freed.push_back(sample<void*>(number));
    return made;
  }
};

template <typename T>
std::string address(const T& pointer) {
  std::ostringstream out;
  out << std::hex << "0x" << reinterpret_cast<std::uintptr_t>(pointer);
  return out.str();
}

template <typename T>
std::string describe(const T& value);

template <typename A, typename B>
std::string describe(const std::pair<A, B>& pair) {
  return "(" + describe(pair.first) + ", " + describe(pair.second) + ")";
}
template <typename T>
std::string describe(const std::shared_ptr<T>& pointer) {
  return address(pointer.get());
}
template <typename R, typename... A>
std::string describe(const std::function<R(A...)>& function) {
  return function ? "a function" : "no function";
}

template <typename T>
std::string describe(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_pointer_v<T>) {
    return address(value);
  } else if constexpr (std::is_convertible_v<T, std::string>) {
    return "'" + std::string(value) + "'";
  } else if constexpr (std::is_same_v<T, DataPtr>) {
    return address(value.get());
  } else if constexpr (std::is_same_v<T, Stream>) {
    return "stream " + std::to_string(value.id());
  } else if constexpr (requires { value.is_small_pool; }) {
    return std::to_string(value.total_size);
  } else if constexpr (std::is_same_v<T, CachingDeviceAllocator::DeviceStats>) {
    return std::to_string(value.num_ooms) + " times out of memory";
  } else if constexpr (std::is_same_v<T, SnapshotInfo>) {
    return std::to_string(value.segments.size()) + " segments";
  } else if constexpr (std::is_same_v<T, CheckpointDelta>) {
    return std::to_string(value.ptrs_freed.size()) + " freed";
  } else if constexpr (requires { value.begin(), value.size(); }) {
    std::string all;
    for (const auto& one : value) all += (all.empty() ? "" : ", ") + describe(one);
    return "[" + all + "]";
  } else {
    static_assert(sizeof(T) == 0, "a type of PyTorch's that is new: say how to describe it");
  }
}

template <typename... Arguments>
std::string describe_call(const char* name, const Arguments&... arguments) {
  std::string all;
  ((all += (all.empty() ? "" : ", ") + describe(arguments)), ...);
  return std::string(name) + "(" + all + ")";
}

}  // namespace c10::cuda::CUDACachingAllocator::fake_beneath
