// Cards shared by several processes, through the file that FAKECUDA_SHARED names. Each process
// writes into the file how many bytes of each card it uses.
//
//     file   peaks | process A: used, used, ... | process B: used, ... | free | ...
//
// A process writes only into its own row and the peaks, one number at a time. So it may be killed
// at any moment. Once a process has ended, its memory counts as free. The system reuses process
// ids, so a row also contains the start time of its process. The lock is `flock`, which the system
// releases when a process ends.

#include "shared_cards.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "state.hpp"

namespace fakecuda {
namespace {

constexpr size_t kMostProcesses = 256;
constexpr size_t kMostDevices = 64;

struct Row {
  uint64_t pid;  // 0: free row
  uint64_t began;
  std::array<uint64_t, kMostDevices> used;
};

struct Table {
  std::array<uint64_t, kMostDevices> peaks;
  std::array<Row, kMostProcesses> rows;
};

// Return the start time of a process in clock ticks; 0 if the process does not exist or has ended.
uint64_t began(uint64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');  // the name may contain any characters
  if (name_end == std::string::npos) return 0;
  char state = 'X';
  unsigned long long ticks = 0;
  constexpr auto kFormat =
      " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu";
  if (std::sscanf(text.c_str() + name_end + 1, kFormat, &state, &ticks) != 2) return 0;
  return state == 'Z' || state == 'X' ? 0 : ticks;
}

// This process's view of the file.
struct SharedTable {
  pid_t owner = 0;
  int file = -1;
  Table* table = nullptr;
  Row* own = nullptr;
  // In a forked child: bytes in use at the fork, which the rows of its ancestors contain.
  std::array<size_t, kMostDevices> before{};
};

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "FAKECUDA_SHARED: %s\n", why);
  std::abort();
}

// Take a free row, or the row of a process that has ended.
void take_row(SharedTable& shared) {
  flock(shared.file, LOCK_EX);
  for (Row& row : shared.table->rows) {
    if (row.pid != 0 && began(row.pid) == row.began) continue;
    row.used = {};
    row.began = began(static_cast<uint64_t>(shared.owner));
    row.pid = static_cast<uint64_t>(shared.owner);
    shared.own = &row;
    break;
  }
  flock(shared.file, LOCK_UN);
  if (shared.own == nullptr) give_up("more than 256 processes use the file");
}

// Return the table; null if cards are not shared. A forked child opens the file again, because it
// would otherwise share the lock with its parent.
SharedTable* opened() {
  static const char* const path = std::getenv("FAKECUDA_SHARED");
  if (path == nullptr || *path == '\0') return nullptr;
  static SharedTable shared;
  if (shared.owner == getpid()) return &shared;
  const bool forked = shared.owner != 0;
  shared.own = nullptr;
  shared.owner = getpid();
  if (forked) close(shared.file);
  shared.file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (shared.file < 0 || ftruncate(shared.file, sizeof(Table)))
    give_up("the file cannot be opened or resized");
  if (shared.table == nullptr) {
    void* pages = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, shared.file, 0);
    if (pages == MAP_FAILED) give_up("the file cannot be mapped");
    shared.table = static_cast<Table*>(pages);
  }
  for (size_t at = 0; forked && at < kMostDevices; ++at)
    shared.before[at] = charged(static_cast<int>(at));
  take_row(shared);
  return &shared;
}

size_t of_others(const SharedTable& shared, size_t device) {
  size_t sum = 0;
  for (const Row& row : shared.table->rows) {
    if (&row == shared.own || row.pid == 0 || row.used[device] == 0) continue;
    if (began(row.pid) == row.began) sum += row.used[device];
  }
  return sum;
}

}  // namespace

CardLock::CardLock() {
  if (const SharedTable* shared = opened()) flock(file_ = shared->file, LOCK_EX);
}

CardLock::~CardLock() {
  if (file_ >= 0) flock(file_, LOCK_UN);
}

size_t used_by_others(int device) {
  const SharedTable* shared = opened();
  return shared ? of_others(*shared, static_cast<size_t>(device)) : 0;
}

void publish_use(int device, size_t used) {
  SharedTable* shared = opened();
  if (shared == nullptr) return;
  const auto at = static_cast<size_t>(device);
  shared->own->used[at] = used - std::min(used, shared->before[at]);
  uint64_t& peak = shared->table->peaks[at];
  peak = std::max<uint64_t>(peak, shared->own->used[at] + of_others(*shared, at));
}

size_t peak_of_all(int device, bool reset) {
  SharedTable* shared = opened();
  if (shared == nullptr) return 0;
  const auto at = static_cast<size_t>(device);
  const CardLock lock;
  const size_t found = shared->table->peaks[at];
  if (reset) shared->table->peaks[at] = shared->own->used[at] + of_others(*shared, at);
  return found;
}

bool shares_cards() {
  return opened() != nullptr;
}

}  // namespace fakecuda
