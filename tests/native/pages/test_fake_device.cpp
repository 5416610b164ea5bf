// Tests of the fake device: misuse is a violation, and aliases show the same contents.

#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "check.hpp"
#include "fake_device.hpp"

using namespace pgmo;
using namespace pgmo::test;
using pages::Address;
using pages::Event;
using pages::Handle;

namespace {

// Return the message of the violation with which the misuse ends its process.
template <typename Misuse>
std::string violation_of(Misuse&& misuse) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    misuse();
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char some[256];
  for (ssize_t count; (count = read(ends[0], some, sizeof some)) > 0;) {
    said.append(some, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? "nothing" : said;
}

template <typename Misuse>
bool ends_with(const char* message, Misuse&& misuse) {
  const std::string said = violation_of(misuse);
  if (said.starts_with("VIOLATION: " + std::string(message))) return true;
  std::printf("  instead of \"%s\": %s\n", message, said.c_str());
  return false;
}

// Addresses of four pages, of which the first two are mapped, and a third page that is mapped
// nowhere.
struct Mapped {
  Mapped() {
    for (Handle& one : page) device.create(one);
    for (const Address at : {Address{0}, Address{1}}) device.map(base + at * kPage, page[at]);
    device.grant(base, 2 * kPage);
  }

  static constexpr Bytes kPage = FakeDevice::page();
  FakeDevice device{4};
  const Address base = device.reserve(4 * kPage);
  Handle page[3]{};
};

constexpr Bytes kPage = Mapped::kPage;

}  // namespace

TEST(an_alias_is_one) {
  Mapped f;
  const Address alias = f.base + 3 * kPage;
  CHECK(f.device.map(alias, f.page[1]));
  CHECK(f.device.grant(alias, kPage));
  CHECK_EQ(f.device.page_at(alias + 100), f.page[1]);
  CHECK_EQ(f.device.most_mappings, 2);
  f.device.fill(0, {f.base + kPage + 64, 512}, 7);
  f.device.check(0, {alias + 64, 512}, 7);
  f.device.synchronize();
  CHECK(ends_with("a block does not hold what was written to it", [&] {
    f.device.fill(0, {alias + 64, 512}, 8);
    f.device.check(0, {f.base + kPage + 64, 512}, 7);
    f.device.synchronize();
  }));
}

TEST(the_last_word_of_a_block_is_checked_across_pages) {
  Mapped f;
  const Address begin = f.base + kPage - 128;
  f.device.fill(0, {begin, 128 + 64}, 7);
  f.device.check(0, {begin, 128 + 64}, 7);
  f.device.synchronize();
  CHECK(ends_with("a block does not hold what was written to it", [&] {
    f.device.fill(0, {begin + 128 + 56, 8}, 7);
    f.device.check(0, {begin, 128 + 64}, 7);
    f.device.synchronize();
  }));
}

TEST(contents_of_a_page_before_its_creation_are_not_found) {
  Mapped f;
  f.device.fill(0, {f.base, kPage}, 7);
  f.device.synchronize();
  f.device.unmap(f.base, kPage);
  f.device.release(f.page[0]);
  Handle again = 0;
  CHECK(f.device.create(again));
  CHECK(again != f.page[0]);
  CHECK_EQ(FakeMemory::frame_of(again), FakeMemory::frame_of(f.page[0]));
  CHECK(f.device.map(f.base, again) && f.device.grant(f.base, kPage));
  CHECK(ends_with("a block does not hold what was written to it", [&] {
    f.device.check(0, {f.base, kPage}, 7);
    f.device.synchronize();
  }));
}

TEST(work_that_is_still_to_come_finds_its_pages) {
  Mapped f;
  f.device.fill(1, {f.base + kPage - 64, 128}, 7);
  CHECK(ends_with("addresses are unmapped that work is still to use",
                  [&] { f.device.unmap(f.base + kPage, kPage); }));
  f.device.synchronize();
  f.device.unmap(f.base + kPage, kPage);
  const auto use = [&](Address address) {
    return [&f, address] {
      f.device.fill(0, {address, 64}, 7);
      f.device.synchronize();
    };
  };
  CHECK(ends_with("work uses what is not mapped", use(f.base + kPage)));
  CHECK(ends_with("addresses are used that are not reserved", use(f.base - kPage - 64)));
  CHECK(f.device.map(f.base + kPage, f.page[1]));  // access is not granted
  CHECK_EQ(f.device.page_at(f.base + kPage), 0u);
  CHECK(ends_with("work uses what is not mapped", use(f.base + kPage)));
}

TEST(pages_are_mapped_where_there_is_room) {
  Mapped f;
  const auto map = [&](Address address, Handle page) {
    return [&f, address, page] { f.device.map(address, page); };
  };
  CHECK(ends_with("a page is mapped that is not there", map(f.base, f.page[2] + 1)));
  CHECK(ends_with("a page is mapped where another one is", map(f.base, f.page[2])));
  CHECK(ends_with("a page is mapped where no page begins", map(f.base + 64, f.page[2])));
  CHECK(ends_with("a page is mapped where nothing is reserved", map(f.base - kPage, f.page[2])));
  f.device.reserve(kPage);  // is not adjacent to the earlier addresses
  CHECK(
      ends_with("a page is mapped where nothing is reserved", map(f.base + 4 * kPage, f.page[2])));
  CHECK(ends_with("access is granted to what is not mapped",
                  [&] { f.device.grant(f.base + kPage, 2 * kPage); }));
  CHECK(ends_with("a page is unmapped that is not mapped",
                  [&] { f.device.unmap(f.base + kPage, 2 * kPage); }));
  CHECK(ends_with("what is unmapped is no page", [&] { f.device.unmap(f.base, kPage / 2); }));
}

TEST(pages_are_released_once_and_when_they_are_mapped_nowhere) {
  Mapped f;
  CHECK(ends_with("a page is released that is still mapped", [&] { f.device.release(f.page[0]); }));
  f.device.release(f.page[2]);
  CHECK_EQ(f.device.pages_created(), 2u);
  CHECK(ends_with("a page is released that is not there", [&] { f.device.release(f.page[2]); }));
}

TEST(events_are_known_until_they_are_discarded) {
  Mapped f;
  const Event first = f.device.record(0);
  const Event second = f.device.record(0);
  CHECK(!f.device.completed(first));
  CHECK(f.device.wait(1, second));
  f.device.discard(second);  // streams that wait for it continue to wait
  CHECK(!f.device.step(1));
  CHECK(f.device.step(0));
  CHECK(f.device.completed(first));
  CHECK(!f.device.step(1));
  CHECK(f.device.step(0));
  CHECK(f.device.step(1));
  CHECK(
      ends_with("an event is asked about that was discarded", [&] { f.device.completed(second); }));
  CHECK(ends_with("an event is waited for that was discarded", [&] { f.device.wait(1, second); }));
  CHECK(ends_with("an event is discarded twice", [&] { f.device.discard(second); }));
  f.device.discard(first);
}

TEST(the_host_has_no_access_to_addresses_of_the_device) {
  Mapped f;
  CHECK(violation_of([&] {
          std::fclose(stderr);  // suppresses the output of sanitizers
          *reinterpret_cast<volatile char*>(f.base) = 1;
        }) != "nothing");
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
