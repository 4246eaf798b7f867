/* Digests of leaves: CBC-MACs of rows of words, `KeyedNoise.leaf_digests` of dpcore/noise/prf.py. */
#include "kernels.h"

#define ROWS 128 /* chained side by side */

typedef struct {
  weir_schedule key;
  const uint64_t *heads, *rows;
  uint64_t *out;
  Py_ssize_t width;
} job;

/* Rows at[0 .. n - 1], each behind the head of its tick. */
static void chain(const job *all, const Py_ssize_t *at, const int64_t *ticks, int n) {
  uint64_t state[2 * ROWS], framed[2 * ROWS];
  for (int i = 0; i < n; i++) memcpy(state + 2 * i, all->heads + 2 * ticks[i], 16);
  for (Py_ssize_t w = 0; w < all->width; w += 2) {
    int pair = w + 1 < all->width;
    for (int i = 0; i < n; i++) {
      const uint64_t *row = all->rows + at[i] * all->width + w;
      framed[2 * i] = state[2 * i] ^ row[0];
      framed[2 * i + 1] = state[2 * i + 1] ^ (pair ? row[1] : 0);
    }
    weir_aes_blocks(&all->key, framed, state, n);
  }
  for (int i = 0; i < n; i++) memcpy(all->out + 2 * at[i], state + 2 * i, 16);
}

/* Leaves of each tick and key; 0 gives 0. */
static void leaves(const job *all, Py_ssize_t ticks, Py_ssize_t keys) {
  Py_ssize_t at[ROWS];
  int64_t of[ROWS];
  int n = 0;
  memset(all->out, 0, 16 * (size_t)(ticks * keys));
  for (Py_ssize_t t = 0; t < ticks; t++)
    for (Py_ssize_t k = 0; k < keys; k++) {
      const uint64_t *row = all->rows + (t * keys + k) * all->width;
      uint64_t any = 0;
      for (Py_ssize_t w = 0; w < all->width && !any; w++) any |= row[w];
      if (!any) continue;
      at[n] = t * keys + k;
      of[n++] = t;
      if (n == ROWS) {
        chain(all, at, of, n);
        n = 0;
      }
    }
  chain(all, at, of, n);
}

PyObject *weir_leaf_digests(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[4]; /* key, heads (n, 2), leaves (n, K, d), out (n, K, 2) */
  job all;
  if (!weir_take(args, views, 4, 8)) return NULL;
  Py_ssize_t ticks = views[1].len / 16, rows = views[3].len / 16;
  int fits = weir_aes_schedule(&views[0], &all.key) && views[1].len % 16 == 0 && views[3].len % 16 == 0 &&
             (ticks ? rows % ticks == 0 : rows == 0) &&
             (rows ? views[2].len % (8 * rows) == 0 : views[2].len == 0);
  if (fits && rows) {
    all.heads = views[1].buf;
    all.rows = views[2].buf;
    all.out = views[3].buf;
    all.width = views[2].len / 8 / rows;
    Py_BEGIN_ALLOW_THREADS
    leaves(&all, ticks, rows / ticks);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 4, fits ? NULL : "heads must be (n, 2), leaves (n, K, d), out (n, K, 2).");
}

PyObject *weir_cell_digests(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[5]; /* key, heads (n, 2), ticks (m,), values (m, d), out (m, 2) */
  job all;
  if (!weir_take(args, views, 5, 16)) return NULL;
  Py_ssize_t known = views[1].len / 16, rows = views[4].len / 16;
  const int64_t *ticks = views[2].buf;
  int fits = weir_aes_schedule(&views[0], &all.key) && views[1].len % 16 == 0 && views[4].len % 16 == 0 &&
             views[2].len == 8 * rows && (rows ? views[3].len % (8 * rows) == 0 : views[3].len == 0);
  for (Py_ssize_t i = 0; fits && i < rows; i++) fits = ticks[i] >= 0 && ticks[i] < known;
  if (fits && rows) {
    all.heads = views[1].buf;
    all.rows = views[3].buf;
    all.out = views[4].buf;
    all.width = views[3].len / 8 / rows;
    Py_BEGIN_ALLOW_THREADS
    Py_ssize_t at[ROWS];
    for (Py_ssize_t first = 0; first < rows; first += ROWS) {
      int n = rows - first < ROWS ? (int)(rows - first) : ROWS;
      for (int i = 0; i < n; i++) at[i] = first + i;
      chain(&all, at, ticks + first, n);
    }
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 5, fits ? NULL : "heads must be (n, 2), ticks (m,) below n, values (m, d), out (m, 2).");
}
