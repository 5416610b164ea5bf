/* What an adapter needs to know of the pages: a table of C functions, as pgmo_engine.h has one.
 *
 *      framework ──allocate──▶ adapter ──▶ engine: a slot? ──no──▶ pages: a block of a window
 *                                 ▲                                   │
 *                                 └── reserve, create, map, ... ◀─────┘   calls of the driver
 *
 * The pages live in the Python module pgmo._core. They make no call of a driver themselves: the
 * adapter, which is compiled against the framework and its CUDA, hands them a table of its own.
 *
 * Every function may be called from any thread, none calls Python, none throws.
 */

#ifndef PGMO_PAGES_H
#define PGMO_PAGES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PGMO_PAGES_API_VERSION 5

/* Numbers of streams are below it. */
#define PGMO_MOST_STREAMS 64

typedef struct pgmo_space pgmo_space;

/* Of a device; what each does is told in pages/device.hpp. Those that return int return non-zero on
 * success. */
typedef struct pgmo_pages_device {
  void* context; /* the first argument of each */
  uintptr_t (*reserve)(void*, uint64_t bytes);
  int (*create)(void*, uint64_t* page);
  void (*release)(void*, uint64_t page);
  int (*map)(void*, uintptr_t address, uint64_t page);
  int (*grant)(void*, uintptr_t address, uint64_t bytes);
  void (*unmap)(void*, uintptr_t address, uint64_t bytes);
  uint64_t (*record)(void*, uint32_t stream);
  int (*completed)(void*, uint64_t event);
  void (*discard)(void*, uint64_t event);
  int (*wait)(void*, uint32_t stream, uint64_t event);
  void (*took)(void*, int64_t bytes);
  int (*capturing)(void*);
} pgmo_pages_device;

/* Of one allocator, or of several. */
typedef struct pgmo_usage {
  uint64_t bytes;  /* of living blocks, rounded */
  uint64_t blocks; /* their number */
  uint64_t pages;  /* bytes that it has of the device */
} pgmo_usage;

typedef struct pgmo_pages_statistics {
  uint64_t held_bytes;      /* pages of the device */
  uint64_t occupied_bytes;  /* of the pages held, those that a living block lies on */
  uint64_t live_bytes;      /* blocks of windows, rounded */
  pgmo_usage now;           /* windows and slots of planned ranges, without what sleeps */
  pgmo_usage peak;          /* with the allocator beneath, since the last reset */
  uint64_t living_bytes;    /* of the same with what sleeps */
  uint64_t allocated_bytes; /* summed over all blocks of windows that ever were */
  uint64_t allocations;
  uint64_t creates; /* pages created and released, ever */
  uint64_t releases;
} pgmo_pages_statistics;

/* Which locks of the adapter's: taken before all others, or after them. See csrc/forks.hpp. */
enum { PGMO_LOCKS_OUTER = 0, PGMO_LOCKS_LEAF = 4 };

typedef struct pgmo_pages_api {
  uint32_t version; /* PGMO_PAGES_API_VERSION */
  uint32_t size;    /* sizeof(pgmo_pages_api) */

  /* The pages of a device, which live as long as the process. NULL: no memory on the host. Without
   * aliases no page is mapped at two addresses. */
  pgmo_space* (*open)(const pgmo_pages_device*, uint64_t page_bytes, int aliases);

  /* A block, or NULL: no page can be had. */
  void* (*allocate)(pgmo_space*, size_t bytes, uint32_t stream);

  /* Non-zero: it was one of theirs, and is free now. */
  int (*deallocate)(pgmo_space*, void* block);

  /* Another stream uses a block until it is freed. Non-zero: it is one of theirs. */
  int (*use_block)(pgmo_space*, void* block, uint32_t stream);

  /* Bytes of a living block, rounded; 0: it is none. */
  uint64_t (*size_of)(pgmo_space*, const void* block);

  /* Whether the address is one of theirs, whatever lies there. */
  int (*owns)(pgmo_space*, const void* address);

  /* Calls `visit` for each living block of a window, which may not call anything of this table. */
  void (*for_each)(pgmo_space*,
                   void (*visit)(void* context, uintptr_t address, uint64_t bytes, uint32_t stream),
                   void* context);

  /* The same for each run of pages that follow each other: a segment, as torch's snapshots have
   * them. */
  void (*for_each_run)(pgmo_space*,
                       void (*visit)(void* context, uintptr_t address, uint64_t bytes,
                                     uint32_t stream),
                       void* context);

  /* Tells how the program orders its streams; `what` is as in pgmo_engine.h. Nothing but a count
   * depends on it: of waits that the program does not imply. */
  void (*ordered)(pgmo_space*, int what, uint32_t stream, uint64_t event);

  /* Keeps the pages under all that lives where they are for good, for a graph that was captured. */
  void (*pin_living)(pgmo_space*);

  /* Keeps the pages under a living block there as long as it lives, for other processes: calls
   * `visit` with each page, in their order. Returns where the first one begins; 0: no pages are
   * there. */
  uintptr_t (*share)(pgmo_space*, const void* block, uint64_t bytes,
                     void (*visit)(void* context, uint64_t page), void* context);

  /* Calls `visit` with each page that lies under such a block. */
  void (*for_each_shared)(pgmo_space*, void (*visit)(void* context, uint64_t page), void* context);

  /* Makes all that is mapped accessible again, as for a device that has become a peer. */
  void (*grant_again)(pgmo_space*);

  /* Returns idle pages to the device, up to so many bytes; returns how many. */
  uint64_t (*give_back)(pgmo_space*, uint64_t bytes);

  /* Whether what is requested from now on is there to stay, as the state of an optimizer is. */
  void (*expect_lasting)(pgmo_space*, int on);

  /* No more pages than that. */
  void (*limit)(pgmo_space*, uint64_t bytes);

  /* The allocator beneath has served a request. Non-zero: tell what it has now. */
  int (*beneath_grew)(pgmo_space*);

  /* What the allocator beneath has now. Peaks count both, and the pages cannot ask. */
  void (*tell_beneath)(pgmo_space*, const pgmo_usage*);

  /* A word that is not 0 while a peak waits for that; read it with a relaxed atomic load. It lives
   * as long as the process. */
  const uint32_t* (*unconfirmed)(pgmo_space*);

  void (*statistics)(pgmo_space*, pgmo_pages_statistics* out);
  void (*reset_peaks)(pgmo_space*); /* after `tell_beneath` */

  /* Has each fork() of the process take locks of the adapter's, and free them in both processes, in
   * the order in which all of pgmo's are taken. For as long as the process lives. Zero: no memory.
   */
  int (*at_fork)(int which, void* context, void (*take)(void* context),
                 void (*free)(void* context, int child));
} pgmo_pages_api;

#ifdef __cplusplus
}
#endif

#endif /* PGMO_PAGES_H */
