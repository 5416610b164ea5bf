// Cards shared by several processes; see shared_cards.cpp. If FAKECUDA_SHARED is not set, each
// process has its own cards, and these functions do nothing.

#pragma once

#include <cstddef>

namespace fakecuda {

bool shares_cards();

// Held while a process checks the free memory and takes some. Not recursive.
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

// Publish this process's use of the card. Requires the lock.
void publish_use(int device, size_t used);

// Return the peak use of all processes since the file was created or last reset.
size_t peak_of_all(int device, bool reset);

}  // namespace fakecuda
