// Cards shared by several processes; see shared_cards.cpp. If FAKECUDA_SHARED is not set, each
// process has cards of its own: `shares_cards` returns false, the other functions return 0 or do
// nothing. Sizes are in bytes.

#pragma once

#include <cstddef>

namespace fakecuda {

bool shares_cards();

// Scope in which no other process takes memory of a card. Not recursive: the inner scope's end
// would release the lock.
class CardLock {
 public:
  CardLock();
  ~CardLock();
  CardLock(const CardLock&) = delete;
  CardLock& operator=(const CardLock&) = delete;

 private:
  int file_ = -1;
};

// Return the bytes of a card that other processes use.
size_t used_by_others(int device);

// Publish the bytes of a card that this process uses. Requires a CardLock.
void publish_use(int device, size_t used);

// Return the peak of the bytes that all processes use together, since the creation of the file or
// the last reset. `reset`: then set the peak to the bytes in use.
size_t peak_of_all(int device, bool reset);

}  // namespace fakecuda
