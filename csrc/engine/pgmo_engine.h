/* What an adapter needs to know of the engine: a table of C functions, and nothing else of ours.
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
 * adapter; an adapter is compiled against some framework and is linked with nothing of ours.
 *
 * Safety invariant: no address range is ever handed out while a live block overlaps it, whatever
 * the program does: any sequence of calls, from any threads. Every function may be called from any
 * thread, none calls Python, none throws, and no lock is held while the framework is called.
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

/* Bits of the mode word. Zero is bypass: the adapter asks the framework and returns. It may call
 * `adopt` all the same, so that idle pages of arenas go back for a large block in a pause. */
enum { PGMO_RECORDING = 1, PGMO_SERVING = 2 };

/* What orders streams; see `ordered`. The values are those of recorded events. */
enum {
  PGMO_RECORDED = 4,    /* an event, on a stream */
  PGMO_WAITED = 5,      /* a stream, for an event */
  PGMO_STREAM_DONE = 6, /* the calling thread has waited for a stream */
  PGMO_EVENT_DONE = 7,  /* for an event */
  PGMO_DEVICE_DONE = 8, /* for all streams */
  PGMO_ORDER_LOST = 9   /* nothing was heard for a while: events may be others than they were */
};

typedef struct pgmo_engine_statistics {
  uint64_t live_slot_bytes;
  uint64_t live_fallback_bytes; /* blocks that the framework provided instead */
  uint64_t arena_bytes;      /* of all arenas held, those waiting for their last block included */
  uint64_t paged_slots;      /* that ever were in arenas with pages; refused ones are not counted */
  uint64_t paged_slot_bytes; /* summed over these, rounded */
} pgmo_engine_statistics;

typedef struct pgmo_engine_api {
  uint32_t version; /* PGMO_ENGINE_API_VERSION */
  uint32_t size;    /* sizeof(pgmo_engine_api) */

  /* The mode word; read it with a relaxed atomic load. It lives as long as the process. */
  const uint32_t* (*mode)(pgmo_engine*);

  /* A slot's address, or NULL: ask the framework. `bytes` of 0 is always NULL, and is not
   * counted. */
  void* (*allocate)(pgmo_engine*, size_t bytes, uint64_t stream);

  /* Tells of a block that the framework provided instead. Non-zero: call `release` when it is
   * freed, before its memory goes back to the framework. `in_gap`: it lies in memory of the
   * framework's that would be idle without it, so it needs no slot. */
  int (*adopt)(pgmo_engine*, void* pointer, size_t bytes, uint64_t stream, int in_gap);

  /* PGMO_SLOT: it was a slot and is free now. PGMO_FOREIGN: hand it to the framework.
   * Works in every mode, also long after serving has stopped. */
  int (*release)(pgmo_engine*, void* pointer);

  /* Non-zero when the pointer lies in one of the engine's arenas. */
  int (*owns)(pgmo_engine*, const void* pointer);

  /* Tells that a block is used on this stream. While recording it is noted, and a block that other
   * streams use is not planned. PGMO_SLOT: it lies in memory of the engine's and the stream is
   * another one than its own, so the adapter has to put off `release` until that stream is done. */
  int (*shared)(pgmo_engine*, void* pointer, uint64_t stream);

  /* Tells how the program orders its streams; noted while recording. `event` is any number by which
   * it is told from others while it is there. */
  void (*ordered)(pgmo_engine*, int what, uint64_t stream, uint64_t event);

  /* Bytes that were asked for, of a living block in memory of the engine's; 0 for others. Slower
   * than the rest: for profilers. */
  uint64_t (*size_of)(pgmo_engine*, const void* pointer);

  /* Calls `visit` with each living block in memory of the engine's, for snapshots. It may not call
   * anything of this table. */
  void (*for_each_slot)(pgmo_engine*,
                        void (*visit)(void* context, uintptr_t address, uint64_t bytes),
                        void* context);

  /* To be called when the framework has no memory left: gives back arenas in which nothing is
   * alive, until the session takes new ones. Non-zero: there were some, so ask the framework again.
   */
  int (*yield_idle)(pgmo_engine*);

  void (*statistics)(pgmo_engine*, pgmo_engine_statistics* out);
} pgmo_engine_api;

/* What an adapter hands out as an arena: one block of the framework's. */
typedef struct pgmo_arena {
  void* base;
  size_t bytes;
  void (*give_back)(void* context); /* called once, from any thread, when its last block has died */
  void* context;
} pgmo_arena;

#ifdef __cplusplus
}
#endif

#endif /* PGMO_ENGINE_H */
