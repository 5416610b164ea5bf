// A CUDA runtime without CUDA, for one process: devices that are numbers, streams whose work is
// done at once or held back, and a log of what was asked for.
//
//     handle of a stream    device + 1 │ number      the default stream of each device: null
//                           bits 8...  │ bits 0..7
//
// A device that nobody has made current has no context, which is hundreds of megabytes on a card.
//
// What a real runtime would refuse, or would be wrong without notice, is a complaint; tests end
// with none.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace fake {

constexpr int kDevices = 4;

void log(const std::string& line);
void complain(const std::string& line);

// As PyTorch sees it: the one that the thread is to have, though it may not be current yet.
int current_device();
int exchange_device(int device);
void maybe_set_device(int device);

std::uint64_t current_stream(int device);  // its handle
std::uint64_t handle_of(int device, int number);

// Copies text to where a test reads it; returns how long it is.
std::size_t hand_out(const std::string& text, char* to, std::size_t capacity);

}  // namespace fake

extern "C" {
// Of the calling thread.
void fake_set_device(int device);
void fake_set_stream(int device, int number);
}
