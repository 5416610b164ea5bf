/* The interface between an adapter and the pages: a table of C functions, as in pgmo_engine.h.
 *
 *      framework ──allocate──▶ adapter ──▶ engine: a slot? ──no──▶ pages: a block of a window
 *                                 ▲                                   │
 *                                 └── reserve, create, map, ... ◀─────┘   calls of the driver
 *
 * The code of the pages is part of the Python module pgmo._core. It makes no driver call itself:
 * the adapter is compiled against the framework and its CUDA, and passes a table of device
 * functions.
 *
 * Every function may be called from any thread. No function calls Python or throws.
 */

#ifndef PGMO_PAGES_H
#define PGMO_PAGES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PGMO_PAGES_API_VERSION 6

/* Maximum number of streams; each stream number is below it. */
#define PGMO_MOST_STREAMS 64

typedef struct pgmo_space pgmo_space;

/* Functions of a device, documented in pages/device.hpp. Functions that return int return non-zero
 * for success or true. */
typedef struct pgmo_pages_device {
  void* context; /* first argument of each function */
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

/* Memory of one or several allocators. */
typedef struct pgmo_usage {
  uint64_t bytes;  /* bytes of live blocks, rounded */
  uint64_t blocks; /* number of live blocks */
  uint64_t pages;  /* bytes taken from the device */
} pgmo_usage;

typedef struct pgmo_pages_statistics {
  uint64_t held_bytes;      /* pages of the device */
  uint64_t occupied_bytes;  /* pages with a live block */
  uint64_t live_bytes;      /* blocks of windows, rounded */
  pgmo_usage now;           /* blocks of windows, slots of planned ranges; bytes: those awake */
  pgmo_usage peak;          /* since the last reset, including the framework's allocator */
  uint64_t living_bytes;    /* bytes of `now`, plus sleeping blocks */
  uint64_t allocated_bytes; /* total of all blocks of windows */
  uint64_t allocations;
  uint64_t creates; /* totals of pages created and released */
  uint64_t releases;
} pgmo_pages_statistics;

/* Order in which a fork takes an adapter's locks: before the locks of pages and engines, or after
 * them. See csrc/forks.hpp. */
enum { PGMO_LOCKS_OUTER = 0, PGMO_LOCKS_LEAF = 4 };

typedef struct pgmo_pages_api {
  uint32_t version; /* PGMO_PAGES_API_VERSION */
  uint32_t size;    /* sizeof(pgmo_pages_api) */

  /* Open the page space of a device, which lives as long as the process. Return NULL if the host is
   * out of memory. Without `aliases`, no page is mapped at two addresses at a time. */
  pgmo_space* (*open)(const pgmo_pages_device*, uint64_t page_bytes, int aliases);

  /* Allocate a block in a window. `pool`: number of the pool that owns the window; 0: none. Return
   * NULL if pages or addresses are exhausted, or if a page is missing during a capture. */
  void* (*allocate)(pgmo_space*, size_t bytes, uint32_t stream, uint64_t pool);

  /* Return the bytes of idle pages in the windows of a pool. */
  uint64_t (*idle_in)(pgmo_space*, uint64_t pool);

  /* Let a later pool use the windows of this pool, after their last block is freed. */
  void (*close_pool)(pgmo_space*, uint64_t pool);

  /* Free a block. Return zero if the block is unknown. */
  int (*deallocate)(pgmo_space*, void* block);

  /* Record that another stream uses a block until its free. Return zero if the block is unknown, or
   * the stream is out of range. */
  int (*use_block)(pgmo_space*, void* block, uint32_t stream);

  /* Return the rounded bytes of a live block, or 0 if the block is unknown. */
  uint64_t (*size_of)(pgmo_space*, const void* block);

  /* Return whether this space has reserved the address, whether or not a block lies there. */
  int (*owns)(pgmo_space*, const void* address);

  /* Call `visit` for each live block of a window. `visit` must not call this table. */
  void (*for_each)(pgmo_space*,
                   void (*visit)(void* context, uintptr_t address, uint64_t bytes, uint32_t stream),
                   void* context);

  /* Call `visit` for each run of consecutive pages, which is a segment in torch's snapshots. */
  void (*for_each_run)(pgmo_space*,
                       void (*visit)(void* context, uintptr_t address, uint64_t bytes,
                                     uint32_t stream, uint64_t pool),
                       void* context);

  /* Report a call by which the program orders its streams; `what` is as in pgmo_engine.h. Only one
   * statistic depends on these calls: the waits that the program does not imply. */
  void (*ordered)(pgmo_space*, int what, uint32_t stream, uint64_t event);

  /* Note that a capture has ended. The pages of all live blocks stay mapped for the graph, until no
   * block lives there and `give_back` releases them. Above the current occupancy, later requests
   * take idle pages before new pages are created. */
  void (*note_capture)(pgmo_space*);

  /* While a block lives, keep its pages from sleeping, because other processes map them. Call
   * `visit` with the handle of each page, by address. Return the address of the first page, or 0 if
   * no block lives there, the block sleeps, or the host is out of memory. */
  uintptr_t (*share)(pgmo_space*, const void* block, uint64_t bytes,
                     void (*visit)(void* context, uint64_t page), void* context);

  /* Call `visit` with the handle of each page that `share` has passed and whose block still lives.
   */
  void (*for_each_shared)(pgmo_space*, void (*visit)(void* context, uint64_t page), void* context);

  /* Grant access to all mapped pages again, for example after a device has become a peer. */
  void (*grant_again)(pgmo_space*);

  /* Release idle pages whose last use is completed, including pinned pages without a block. Stop
   * once this many bytes are released, or no such page is left. Return the bytes released; 0 during
   * a capture. */
  uint64_t (*give_back)(pgmo_space*, uint64_t bytes);

  /* Set whether the following requests are for blocks that stay, such as optimizer state. */
  void (*expect_lasting)(pgmo_space*, int on);

  /* Limit the bytes of all pages, and release idle pages above the limit. */
  void (*limit)(pgmo_space*, uint64_t bytes);

  /* Record that the framework's allocator has served a request. If this returns non-zero, call
   * `set_beneath`. */
  int (*beneath_grew)(pgmo_space*);

  /* Set the current usage of the framework's allocator. Peaks include this usage. */
  void (*set_beneath)(pgmo_space*, const pgmo_usage*);

  /* Return a word that is not 0 while a peak waits for `set_beneath`; read it with a relaxed
   * atomic load. It lives as long as the process. */
  const uint32_t* (*unconfirmed)(pgmo_space*);

  void (*statistics)(pgmo_space*, pgmo_pages_statistics* out);
  void (*reset_peaks)(pgmo_space*); /* call `set_beneath` before */

  /* Make each later fork() call `take` before it, and `free` after it in both processes. `which`:
   * PGMO_LOCKS_OUTER or PGMO_LOCKS_LEAF. Return zero if the host is out of memory. */
  int (*at_fork)(int which, void* context, void (*take)(void* context),
                 void (*free)(void* context, int child));
} pgmo_pages_api;

#ifdef __cplusplus
}
#endif

#endif /* PGMO_PAGES_H */
