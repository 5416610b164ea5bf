/* The interface between an adapter and the model of plain PyTorch: a table of C functions.
 *
 *      adapter ──each request and free──▶ model ──▶ what plain PyTorch would have reserved
 *              ──pages, segments────────▶       ──▶ what was really taken from the card
 *
 * The model lives in the Python module pgmo._core. Every function may be called from any thread,
 * also under the lock of PyTorch's allocator. No function calls Python or the driver, or throws.
 * Sizes are in bytes. `stream` is any number that identifies a stream of the device.
 */

#ifndef PGMO_BASELINE_H
#define PGMO_BASELINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PGMO_BASELINE_API_VERSION 2

typedef struct pgmo_baseline pgmo_baseline;

/* Settings of PyTorch's allocator, with PyTorch's names. Sizes are in bytes. */
typedef struct pgmo_baseline_settings {
  int64_t expandable_segments;
  int64_t roundup_power2_divisions[16];
  int64_t max_split_size; /* 0: no limit */
  int64_t max_non_split_rounding;
  int64_t large_segment_size;
  double garbage_collection_threshold;
} pgmo_baseline_settings;

/* Figures of a device: bytes and counts. Peaks are since the model began. */
typedef struct pgmo_baseline_figures {
  int64_t reserved; /* bytes that plain PyTorch would have reserved now */
  int64_t peak_reserved;
  int64_t live; /* requested bytes of live blocks */
  int64_t peak_live;
  int64_t taken; /* taken from the card: pages, and segments of PyTorch's allocator */
  int64_t peak_taken;
  int64_t card; /* bytes of the card; 0: unknown */
  int64_t requests;
  int64_t retries;  /* times that plain PyTorch would give back cached memory to serve a request */
  int64_t failures; /* requests that were served, and for which plain PyTorch would have no room */
  int64_t broken;   /* non-zero: the model has stopped, or has missed requests */
  int64_t errors;   /* out-of-memory errors that the program got; the adapter counts them */
} pgmo_baseline_figures;

/* A block of a segment that existed before the model began. */
typedef struct pgmo_baseline_piece {
  uintptr_t address;
  int64_t size;
  int64_t requested;
  int64_t busy;
} pgmo_baseline_piece;

typedef struct pgmo_baseline_api {
  uint32_t version; /* PGMO_BASELINE_API_VERSION */
  uint32_t size;    /* sizeof(pgmo_baseline_api) */

  /* Open the model of a device. The model lives as long as the process. `card`: bytes of the card.
   * `capacity`: bytes of the card that the process can use. Returns NULL if the host is out of
   * memory. */
  pgmo_baseline* (*open)(const pgmo_baseline_settings*, int64_t capacity, int64_t card);

  /* Add a segment that existed before the model began, with its pieces in order of addresses.
   * `small`: non-zero if the segment serves requests up to 1 MiB. */
  void (*add_segment)(pgmo_baseline*, uint64_t stream, int small, int expandable,
                      const pgmo_baseline_piece*, size_t count);

  /* Record a request that was served at this address: by PyTorch's allocator if `beneath` is
   * non-zero, else by pgmo. `user_pool`: number of the program's MemPool; 0: none. */
  void (*allocated)(pgmo_baseline*, uintptr_t address, int64_t bytes, uint64_t stream,
                    uint64_t user_pool, int beneath);

  /* Record the free of a block. No effect if its request was recorded with another `beneath`. */
  void (*freed)(pgmo_baseline*, uintptr_t address, int beneath);

  /* Record the free of a block of pgmo that other streams may still use. Returns a number for
   * `settled`, to be called when these streams have done their work; 0: the model has no such
   * block. */
  uint64_t (*postponed)(pgmo_baseline*, uintptr_t address);
  void (*settled)(pgmo_baseline*, uint64_t number);

  /* Return whether pgmo served the block at this address, for a stream other than `stream`. */
  int (*is_of_other_stream)(pgmo_baseline*, uintptr_t address, uint64_t stream);

  /* Record a request that failed. The model allocates and frees a block of its size, because plain
   * PyTorch might have had room. */
  void (*failed)(pgmo_baseline*, int64_t bytes, uint64_t stream);

  /* Empty the model's cache, as the program has done. */
  void (*empty_cache)(pgmo_baseline*);

  /* `release_pool` marks a MemPool as released by its last user. `empty_pool` empties the cache of
   * a released MemPool. */
  void (*release_pool)(pgmo_baseline*, uint64_t user_pool);
  void (*empty_pool)(pgmo_baseline*, uint64_t user_pool);

  /* Set the fraction of the card that the program may use; negative: no limit. */
  void (*set_fraction)(pgmo_baseline*, double fraction);

  /* Add to a count of bytes (negative: subtract). `private_segments`: segments of private pools
   * that PyTorch serves. `private_blocks`: live blocks of these pools. `took`: all memory that was
   * taken from the card. */
  void (*private_segments)(pgmo_baseline*, int64_t change);
  void (*private_blocks)(pgmo_baseline*, int64_t change);
  void (*took)(pgmo_baseline*, int64_t change);

  void (*figures)(pgmo_baseline*, pgmo_baseline_figures* out);
} pgmo_baseline_api;

#ifdef __cplusplus
}
#endif

#endif /* PGMO_BASELINE_H */
