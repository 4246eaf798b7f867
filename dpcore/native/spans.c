/* Digests of spans of bytes: CBC-MACs behind their length, `hash_spans` of dpcore/leaves/id_hash.py. */
#include "kernels.h"

#define SIDE 128 /* chained side by side */

typedef struct {
  weir_schedule key;
  const unsigned char *data;
  Py_ssize_t size;
} job;

static const uint64_t KEPT[9] = {0,
                                 UINT64_C(0xFF),
                                 UINT64_C(0xFFFF),
                                 UINT64_C(0xFFFFFF),
                                 UINT64_C(0xFFFFFFFF),
                                 UINT64_C(0xFFFFFFFFFF),
                                 UINT64_C(0xFFFFFFFFFFFF),
                                 UINT64_C(0xFFFFFFFFFFFFFF),
                                 UINT64_C(0xFFFFFFFFFFFFFFFF)};

/* The next 16 bytes of a span, zeros behind its end. */
WEIR_INLINE void frame(const job *all, int64_t at, int64_t left, uint64_t *to) {
  if (at + 16 <= all->size) {
    memcpy(to, all->data + at, 16);
    if (left < 16) {
      to[0] &= KEPT[left < 8 ? left : 8];
      to[1] &= KEPT[left > 8 ? left - 8 : 0];
    }
    return;
  }
  to[0] = to[1] = 0;
  memcpy(to, all->data + at, (size_t)(left < 16 ? left : 16));
}

static void chain(const job *all, const int64_t *offsets, Py_ssize_t n, uint64_t *out) {
  uint64_t state[2 * SIDE], framed[2 * SIDE];
  int64_t at[SIDE], left[SIDE];
  Py_ssize_t row[SIDE], live = n;
  for (Py_ssize_t i = 0; i < n; i++) {
    row[i] = i;
    at[i] = offsets[i];
    left[i] = offsets[i + 1] - offsets[i];
    framed[2 * i] = (uint64_t)left[i];
    framed[2 * i + 1] = 0;
  }
  weir_aes_blocks(&all->key, framed, state, n);
  for (;;) {
    Py_ssize_t more = 0;
    for (Py_ssize_t i = 0; i < live; i++) {
      if (left[i] <= 0) {
        memcpy(out + 2 * row[i], state + 2 * i, 16);
        continue;
      }
      uint64_t next[2];
      frame(all, at[i], left[i], next);
      framed[2 * more] = state[2 * i] ^ next[0];
      framed[2 * more + 1] = state[2 * i + 1] ^ next[1];
      row[more] = row[i];
      at[more] = at[i] + 16;
      left[more++] = left[i] - 16;
    }
    if (!more) return;
    live = more;
    weir_aes_blocks(&all->key, framed, state, live);
  }
}

PyObject *weir_span_digests(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[4]; /* key, data, offsets (n + 1,), out (n, 2) */
  job all;
  if (!weir_take(args, views, 4, 8)) return NULL;
  Py_ssize_t n = views[3].len / 16;
  const int64_t *offsets = views[2].buf;
  int fits = weir_aes_schedule(&views[0], &all.key) && views[3].len % 16 == 0 && views[2].len == 8 * (n + 1);
  if (fits) fits = offsets[0] >= 0 && offsets[n] <= views[1].len;
  for (Py_ssize_t i = 0; fits && i < n; i++) fits = offsets[i] <= offsets[i + 1];
  if (fits) {
    all.data = views[1].buf;
    all.size = views[1].len;
    uint64_t *out = views[3].buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t first = 0; first < n; first += SIDE)
      chain(&all, offsets + first, n - first < SIDE ? n - first : SIDE, out + 2 * first);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 4, fits ? NULL : "offsets must be (n + 1,), not decrease, nor leave the data; out (n, 2).");
}
