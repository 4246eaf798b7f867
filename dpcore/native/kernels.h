/* What the files of this folder share. */
#ifndef WEIR_KERNELS_H
#define WEIR_KERNELS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* WEIR_VERSION is a checksum of all sources here, which setup.py defines: a module that was built from
   other sources is not used. */

/* A loop compiled twice, for any x86 and for wider registers, chosen when the module is loaded.
   Both give the same bits: no operation is contracted or reordered. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WEIR_WIDE __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define WEIR_WIDE
#endif

/* Into each of those compilations: a call would keep its loop narrow. */
#ifdef __GNUC__
#define WEIR_INLINE static inline __attribute__((always_inline))
#else
#define WEIR_INLINE static inline
#endif

/* buffer.c: arguments that are buffers, contiguous; bit i of writable: number i is written to. */
int weir_take(PyObject *args, Py_buffer *views, int count, unsigned writable);
PyObject *weir_give(Py_buffer *views, int count, const char *error);

/* aes.c: AES-128 by the processor's own instructions, where it has them. */
typedef struct {
  uint64_t rounds[22];
} weir_schedule;
int weir_aes_ready(void);
int weir_aes_schedule(const Py_buffer *key, weir_schedule *out);
void weir_aes_blocks(const weir_schedule *key, const uint64_t *source, uint64_t *out, Py_ssize_t blocks);

/* streams.c: streams of random words, of (label, key) pairs in order. */
#define WEIR_NAMED 6 /* buffers that name streams: mac, stream, heads, labels, digests, and out */
typedef struct {
  weir_schedule mac, stream;
  const uint64_t *heads, *labels, *digests;
  Py_ssize_t keys, pairs;
} weir_streams;
int weir_streams_of(const Py_buffer *views, weir_streams *out);
void weir_seeds(const weir_streams *streams, Py_ssize_t first, Py_ssize_t count, uint64_t *seeds);
void weir_column(const weir_streams *streams, uint64_t word, uint64_t *out);

/* discrete.c: exact discrete Gaussians; an attempt that is undecided gives INT64_MIN. */
typedef struct {
  const void *rows;
  const uint8_t *tables;
  const uint64_t *powers;
} weir_envelopes;
int weir_envelopes_of(const Py_buffer *rows, const Py_buffer *tables, const Py_buffer *of, const Py_buffer *powers,
                      weir_envelopes *out);
Py_ssize_t weir_samples(const weir_streams *streams, const weir_envelopes *from, const uint64_t *coordinates,
                        Py_ssize_t width, const int64_t *of, Py_ssize_t known, int64_t *out);

/* Words to numbers, in place. */
void weir_normals(void *values, Py_ssize_t n);
void weir_exponentials(void *values, Py_ssize_t n);
void weir_gumbels(void *values, Py_ssize_t n);
void weir_laplaces(void *values, Py_ssize_t n);

PyObject *weir_accumulate(PyObject *self, PyObject *args);
PyObject *weir_add_events(PyObject *self, PyObject *args);
PyObject *weir_aes(PyObject *self, PyObject *args);
PyObject *weir_ball_follow(PyObject *self, PyObject *args);
PyObject *weir_ball_step(PyObject *self, PyObject *args);
PyObject *weir_blake2b(PyObject *self, PyObject *args);
PyObject *weir_cell_digests(PyObject *self, PyObject *args);
PyObject *weir_cells(PyObject *self, PyObject *args);
PyObject *weir_correlate(PyObject *self, PyObject *args);
PyObject *weir_correlate_exact(PyObject *self, PyObject *args);
PyObject *weir_discrete(PyObject *self, PyObject *args);
PyObject *weir_doubles(PyObject *self, PyObject *args);
PyObject *weir_draw(PyObject *self, PyObject *args);
PyObject *weir_encrypt(PyObject *self, PyObject *args);
PyObject *weir_extremes(PyObject *self, PyObject *args);
PyObject *weir_event_rows(PyObject *self, PyObject *args);
PyObject *weir_event_sums(PyObject *self, PyObject *args);
PyObject *weir_excess(PyObject *self, PyObject *args);
PyObject *weir_exponential(PyObject *self, PyObject *args);
PyObject *weir_fields(PyObject *self, PyObject *args);
PyObject *weir_gather(PyObject *self, PyObject *args);
PyObject *weir_hash_numbers(PyObject *self, PyObject *args);
PyObject *weir_hash_spans(PyObject *self, PyObject *args);
PyObject *weir_leaf_digests(PyObject *self, PyObject *args);
PyObject *weir_logarithm(PyObject *self, PyObject *args);
PyObject *weir_lookup(PyObject *self, PyObject *args);
PyObject *weir_mac(PyObject *self, PyObject *args);
PyObject *weir_newlines(PyObject *self, PyObject *args);
PyObject *weir_normal(PyObject *self, PyObject *args);
PyObject *weir_number(PyObject *self, PyObject *args);
PyObject *weir_objects(PyObject *self, PyObject *args);
PyObject *weir_renumber(PyObject *self, PyObject *args);
PyObject *weir_running(PyObject *self, PyObject *args);
PyObject *weir_sum_cells(PyObject *self, PyObject *args);
PyObject *weir_ticks(PyObject *self, PyObject *args);
PyObject *weir_times(PyObject *self, PyObject *args);
PyObject *weir_untouched(PyObject *self, PyObject *args);
PyObject *weir_vectors(PyObject *self, PyObject *args);

#endif
