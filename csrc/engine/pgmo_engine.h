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
 * range that overlaps a live block. Every function may be called from any thread. None calls
 * Python, none throws, and none calls the framework while it holds the engine's lock. All sizes are
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

/* Bits of the mode word. Zero means bypass: the adapter returns what the framework allocates. It
 * may still call `adopt` for a large block, so that idle pages of arenas return to the system in a
 * pause.
 */
enum { PGMO_RECORDING = 1, PGMO_SERVING = 2 };

/* Events that order streams; see `ordered`. Recorded events have the same values. */
enum {
  PGMO_RECORDED = 4,    /* an event was recorded on a stream */
  PGMO_WAITED = 5,      /* a stream waits for an event */
  PGMO_STREAM_DONE = 6, /* the calling thread has waited for a stream */
  PGMO_EVENT_DONE = 7,  /* the calling thread has waited for an event */
  PGMO_DEVICE_DONE = 8, /* the calling thread has waited for all streams */
  PGMO_ORDER_LOST = 9   /* calls were missed: events may have been recorded again */
};

typedef struct pgmo_engine_statistics {
  uint64_t live_slot_bytes;     /* requested sizes; the same below */
  uint64_t live_fallback_bytes; /* blocks that the framework provided on a miss */
  /* Framework memory in arenas, including those that wait for their last free. Not included:
   * arenas of pages (`reserve_arena` of the engine). */
  uint64_t arena_bytes;
  uint64_t paged_slots;      /* slots served in arenas of pages so far, without refused ones */
  uint64_t paged_slot_bytes; /* sum of their sizes, each rounded up as PyTorch rounds blocks */
} pgmo_engine_statistics;

typedef struct pgmo_engine_api {
  uint32_t version; /* PGMO_ENGINE_API_VERSION */
  uint32_t size;    /* sizeof(pgmo_engine_api) */

  /* The mode word; read it with a relaxed atomic load. It lives as long as the process. */
  const uint32_t* (*mode)(pgmo_engine*);

  /* Return a slot's address, or NULL: allocate from the framework, then call `adopt`. Requests of 0
   * bytes always get NULL and are not counted. */
  void* (*allocate)(pgmo_engine*, size_t bytes, uint64_t stream);

  /* Report a block that the framework provided on a miss. Returns non-zero if the engine tracks it:
   * then call `release` when it is freed, before its memory goes back to the framework. `in_gap`:
   * it lies in framework memory that would be idle without it, so it needs no slot. */
  int (*adopt)(pgmo_engine*, void* pointer, size_t bytes, uint64_t stream, int in_gap);

  /* Free a block. Returns PGMO_SLOT if the address lies in an arena: the slot there is free now.
   * Returns PGMO_FOREIGN otherwise: the framework must free the block. Works in every mode, even
   * long after serving has stopped. */
  int (*release)(pgmo_engine*, void* pointer);

  /* Return non-zero if the pointer lies in one of the engine's arenas. */
  int (*owns)(pgmo_engine*, const void* pointer);

  /* Report that a stream uses a block. Use by a stream other than the block's own is recorded, and
   * such a block gets no slot in later plans. Returns PGMO_SLOT if the block is a slot of another
   * stream: the adapter must then delay `release` until this stream has done its work. */
  int (*shared)(pgmo_engine*, void* pointer, uint64_t stream);

  /* Report how the program orders its streams, for the recording. `what`: PGMO_RECORDED to
   * PGMO_ORDER_LOST. `event` is any number that is unique among the events that exist. */
  void (*ordered)(pgmo_engine*, int what, uint64_t stream, uint64_t event);

  /* Return the requested bytes of a live slot; 0 for other blocks. Slower than the other calls: for
   * profilers. */
  uint64_t (*size_of)(pgmo_engine*, const void* pointer);

  /* Call `visit` with each live slot, for snapshots. `visit` must not call functions of this
   * table. */
  void (*for_each_slot)(pgmo_engine*,
                        void (*visit)(void* context, uintptr_t address, uint64_t bytes),
                        void* context);

  /* Give all current arenas back, if no block lives in any of them. The session adds new ones
   * later. Call it when the framework is out of memory. Returns non-zero if there were some: then
   * retry. */
  int (*yield_idle)(pgmo_engine*);

  void (*statistics)(pgmo_engine*, pgmo_engine_statistics* out);
} pgmo_engine_api;

/* An arena from an adapter: one block of the framework. */
typedef struct pgmo_arena {
  void* base;
  size_t bytes;
  void (*give_back)(void* context); /* called once, from any thread, when its last block is freed */
  void* context;
} pgmo_arena;

#ifdef __cplusplus
}
#endif

#endif /* PGMO_ENGINE_H */
