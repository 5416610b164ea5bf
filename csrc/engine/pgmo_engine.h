/* The interface between an adapter and the engine: a table of C functions.
 *
 *      framework ──allocate──▶ adapter ──allocate──▶ engine ──▶ a slot of the arena: a hit
 *                                 │                    │
 *                                 │◀──────NULL─────────┘        a miss
 *                                 └──▶ the framework's own allocator ──adopt──▶ engine
 *
 *      framework ──free──▶ adapter ──release──▶ engine ──▶ PGMO_SLOT: done
 *                                                      └─▶ PGMO_FOREIGN: the framework frees it
 *
 * The engine lives in the Python module pgmo._core, which passes the table's address to the
 * adapter. An adapter is compiled against a framework and does not link against pgmo.
 *
 * Safety invariant: no sequence of calls, from any threads, makes the engine hand out an address
 * range that overlaps a live block. Every function may be called from any thread. No function calls
 * Python or throws. No function calls the framework while it holds the engine's lock. All sizes are
 * in bytes. `stream` is a number that the adapter chooses; equal numbers mean one stream.
 */

#ifndef PGMO_ENGINE_H
#define PGMO_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PGMO_ENGINE_API_VERSION 9

typedef struct pgmo_engine pgmo_engine;

enum { PGMO_FOREIGN = 0, PGMO_SLOT = 1 };

/* Bits of the mode word. Zero means bypass: the adapter returns what the framework allocates. In a
 * pause, the adapter may still call `adopt` for a large block: the engine may then give idle pages
 * of arenas back to the operating system. */
enum { PGMO_RECORDING = 1, PGMO_SERVING = 2 };

/* Calls that order streams; see `ordered`. Events of a recording have the same values. */
enum {
  PGMO_RECORDED = 4,    /* an event was recorded on a stream */
  PGMO_WAITED = 5,      /* a stream waits for an event */
  PGMO_STREAM_DONE = 6, /* the calling thread has waited for a stream */
  PGMO_EVENT_DONE = 7,  /* the calling thread has waited for an event */
  PGMO_DEVICE_DONE = 8, /* the calling thread has waited for all streams */
  PGMO_ORDER_LOST = 9   /* the adapter missed calls: events may have been recorded again */
};

typedef struct pgmo_engine_statistics {
  uint64_t live_slot_bytes;     /* sum of the requested sizes of live slots */
  uint64_t live_fallback_bytes; /* sum of the requested sizes of live blocks of `adopt` */
  /* Framework memory in arenas, including retired arenas that still have a live block. Arenas of
   * pages (`Engine::reserve_arena`) are not included. */
  uint64_t arena_bytes;
  uint64_t paged_slots;      /* number of slots served so far in arenas of pages */
  uint64_t paged_slot_bytes; /* sum of the sizes of `paged_slots`, each rounded as PyTorch does */
} pgmo_engine_statistics;

typedef struct pgmo_engine_api {
  uint32_t version; /* PGMO_ENGINE_API_VERSION */
  uint32_t size;    /* sizeof(pgmo_engine_api) */

  /* The mode word; read it with a relaxed atomic load. It lives as long as the process. */
  const uint32_t* (*mode)(pgmo_engine*);

  /* Return the address of a slot, or NULL. After NULL, the adapter allocates from the framework and
   * calls `adopt`. A request of 0 bytes always gets NULL and is not counted. */
  void* (*allocate)(pgmo_engine*, size_t bytes, uint64_t stream);

  /* Report a block that the framework provided after `allocate` returned NULL. Returns non-zero if
   * the engine tracks the block. The adapter must call `release` for a tracked block before its
   * memory goes back to the framework. `in_gap`: non-zero if the block fills a gap of framework
   * memory. Such a block needs no slot, because the gap would otherwise be idle. */
  int (*adopt)(pgmo_engine*, void* pointer, size_t bytes, uint64_t stream, int in_gap);

  /* Free a block. Returns PGMO_SLOT if the address lies in an arena: the engine has freed the slot.
   * Returns PGMO_FOREIGN otherwise: the framework must free the block. Works in every mode, even
   * long after serving has stopped. */
  int (*release)(pgmo_engine*, void* pointer);

  /* Return non-zero if the pointer lies in one of the engine's arenas. */
  int (*owns)(pgmo_engine*, const void* pointer);

  /* Report that a stream uses a block. If the block belongs to another stream, a recording notes
   * the use, and later plans give the block no slot. Returns PGMO_SLOT if the block is a slot of
   * another or an unknown stream: the adapter must delay `release` until `stream` has completed its
   * work. Returns PGMO_FOREIGN otherwise. */
  int (*shared)(pgmo_engine*, void* pointer, uint64_t stream);

  /* Report how the program orders its streams, for the recording. `what`: PGMO_RECORDED to
   * PGMO_ORDER_LOST. `event` is a number that no other existing event has. */
  void (*ordered)(pgmo_engine*, int what, uint64_t stream, uint64_t event);

  /* Return the requested bytes of a live slot; 0 for other blocks. For profilers: slower than the
   * other functions. */
  uint64_t (*size_of)(pgmo_engine*, const void* pointer);

  /* Call `visit` with each live slot, for snapshots. `visit` must not call functions of this
   * table. */
  void (*for_each_slot)(pgmo_engine*,
                        void (*visit)(void* context, uintptr_t address, uint64_t bytes),
                        void* context);

  /* Give all current arenas back, if no block lives in any of them. The adapter calls this when the
   * framework is out of memory, and retries the allocation if this returns non-zero: arenas were
   * given back. The session adds new arenas later. */
  int (*yield_idle)(pgmo_engine*);

  void (*statistics)(pgmo_engine*, pgmo_engine_statistics* out);
} pgmo_engine_api;

/* An arena: one block of the framework, from an adapter, or the addresses of
 * `Engine::reserve_arena`. */
typedef struct pgmo_arena {
  void* base;
  size_t bytes;
  void (*give_back)(void* context); /* called once, from any thread, to free the arena; or null */
  void* context;
} pgmo_arena;

#ifdef __cplusplus
}
#endif

#endif /* PGMO_ENGINE_H */
