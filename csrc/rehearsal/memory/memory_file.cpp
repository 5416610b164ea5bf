// Physical memory of the cards: one sparse in-memory file per card, with a range for each handle.
//
// The kernel limits the number of mappings per process. It merges mappings that are adjacent both
// in the file and in addresses. With a file per handle, it would merge nothing, and pages of 2 MiB
// would exhaust the descriptors at 40 GiB. A handle gets a file of its own when it is exported.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "../state.hpp"

namespace fakecuda {
namespace {

// Start of the names of all files, followed by the card's number. The name identifies an imported
// descriptor.
const std::string kName = "fakecuda-card-";

// Files grow in steps, because a call of the host for each page of 2 MiB takes too long.
constexpr off_t kStep = off_t{1} << 30;

struct CardFile {
  int descriptor;
  off_t end = 0;
  off_t size = 0;                // of the file, at least `end`
  std::map<off_t, size_t> idle;  // unused ranges: bytes by offset, neighbours merged
};

int new_file(int device) {
  return memfd_create((kName + std::to_string(device)).c_str(), MFD_CLOEXEC);
}

CardFile& card_file(int device) {
  static auto* all = new std::map<int, CardFile>;
  auto found = all->find(device);
  if (found == all->end()) found = all->emplace(device, CardFile{new_file(device), 0, 0, {}}).first;
  return found->second;
}

// Take the lowest unused range, so that ranges created in sequence are adjacent. Return its offset;
// -1 on failure.
off_t lowest(CardFile& file, size_t bytes) {
  const auto found = std::find_if(file.idle.begin(), file.idle.end(),
                                  [=](const auto& range) { return range.second >= bytes; });
  if (found == file.idle.end()) {
    const off_t begin = file.end;
    const off_t end = begin + static_cast<off_t>(bytes);
    if (end > file.size) {
      const off_t size = (end + kStep - 1) / kStep * kStep;
      if (ftruncate(file.descriptor, size)) return -1;
      file.size = size;
    }
    file.end = end;
    return begin;
  }
  const auto [begin, length] = *found;
  file.idle.erase(found);
  if (length > bytes) file.idle[begin + static_cast<off_t>(bytes)] = length - bytes;
  return begin;
}

void make_idle(CardFile& file, off_t begin, size_t bytes) {
  auto next = file.idle.lower_bound(begin);
  if (next != file.idle.end() && next->first == begin + static_cast<off_t>(bytes)) {
    bytes += next->second;
    next = file.idle.erase(next);
  }
  if (next != file.idle.begin()) {
    const auto before = std::prev(next);
    if (before->first + static_cast<off_t>(before->second) == begin) {
      before->second += bytes;
      return;
    }
  }
  file.idle[begin] = bytes;
}

// Copy the parts that were written; all other parts stay holes. Return false on failure.
bool copy_written(const FileRange& from, int to) {
  std::vector<char> buffer(size_t{1} << 20);
  const off_t end = from.begin + static_cast<off_t>(from.bytes);
  off_t at = lseek(from.file, from.begin, SEEK_DATA);
  while (at >= 0 && at < end) {
    const auto rest = static_cast<size_t>(end - at);
    const ssize_t length = pread(from.file, buffer.data(), std::min(buffer.size(), rest), at);
    if (length <= 0) return false;
    if (pwrite(to, buffer.data(), static_cast<size_t>(length), at - from.begin) != length)
      return false;
    at = lseek(from.file, at + length, SEEK_DATA);
  }
  return true;
}

}  // namespace

FileRange take_range(int device, size_t bytes) {
  CardFile& file = card_file(device);
  const off_t begin = file.descriptor < 0 ? -1 : lowest(file, bytes);
  return {begin < 0 ? -1 : file.descriptor, begin, bytes, device, false};
}

void give_back_range(const FileRange& range) {
  if (range.own) {
    close(range.file);
    return;
  }
  fallocate(range.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, range.begin,
            static_cast<off_t>(range.bytes));
  make_idle(card_file(range.device), range.begin, range.bytes);
}

FileRange own_file(const FileRange& range) {
  FileRange own{new_file(range.device), 0, range.bytes, range.device, true};
  if (own.file < 0) return own;
  if (ftruncate(own.file, static_cast<off_t>(range.bytes)) || !copy_written(range, own.file)) {
    close(own.file);
    own.file = -1;
  }
  return own;
}

FileRange from_descriptor(int descriptor) {
  constexpr FileRange kNone{-1, 0, 0, 0, true};
  char name[256];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = readlink(link.c_str(), name, sizeof name);
  if (length < 0) return kNone;
  const std::string prefix = "/memfd:" + kName;
  const std::string text(name, static_cast<size_t>(length));
  struct stat found;
  if (text.compare(0, prefix.size(), prefix) != 0 || fstat(descriptor, &found)) return kNone;
  const int device = std::atoi(text.c_str() + prefix.size());
  const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  return {copy, 0, static_cast<size_t>(found.st_size), device, true};
}

bool same_file(int one, int other) {
  struct stat first, second;
  return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace fakecuda
