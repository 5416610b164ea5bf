// Cards that several processes share; see shared_cards.cpp. Where FAKECUDA_SHARED names no file,
// each process has cards of its own, and nothing here does anything.

#pragma once

#include <cstddef>

namespace fakecuda {

bool shares_cards();

// Held while a process looks how much there is and takes some of it. Not to be taken twice.
class CardLock {
 public:
  CardLock();
  ~CardLock();
  CardLock(const CardLock&) = delete;
  CardLock& operator=(const CardLock&) = delete;

 private:
  int file_ = -1;
};

size_t used_by_others(int device);

// This process has so much of the card now. With the lock.
void tell_others(int device, size_t used);

// The most that all processes had at once, since the file was made or the last reset.
size_t peak_of_all(int device, bool reset);

}  // namespace fakecuda
