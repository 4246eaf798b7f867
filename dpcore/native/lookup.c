/* Hashes found in a table with open addresses: `KeyNumbers` of transforms/operators/key_numbers.py. */
#include "kernels.h"

#define AHEAD 16 /* looked for before their turn: they lie anywhere */

#ifdef __GNUC__
#define FETCH(at) __builtin_prefetch(at)
#else
#define FETCH(at) (void)(at)
#endif

/* 0 where the table is none: a slot points behind what is known, or none is free. */
static int find(const int32_t *slots, uint64_t size, const uint64_t *known, Py_ssize_t count, const uint64_t *asked,
                Py_ssize_t n, int32_t *out) {
  const uint64_t mask = size - 1;
  for (Py_ssize_t i = 0; i < n; i++) {
    if (i + 2 * AHEAD < n) FETCH(slots + (asked[2 * (i + 2 * AHEAD) + 1] & mask));
    if (i + AHEAD < n) {
      int32_t next = slots[asked[2 * (i + AHEAD) + 1] & mask];
      if (next >= 0 && next < count) FETCH(known + 2 * (Py_ssize_t)next);
    }
    uint64_t a = asked[2 * i], b = asked[2 * i + 1], probes = 0;
    int32_t found;
    for (uint64_t at = b & mask; (found = slots[at]) >= 0; at = (at + 1) & mask) {
      if (found >= count || ++probes > size) return 0;
      if (known[2 * (Py_ssize_t)found] == a && known[2 * (Py_ssize_t)found + 1] == b) break;
    }
    out[i] = found;
  }
  return 1;
}

PyObject *weir_lookup(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[4]; /* slots (a power of two,) int32, known (m, 2), asked (n, 2), out (n,) int32 */
  if (!weir_take(args, views, 4, 8)) return NULL;
  Py_ssize_t size = views[0].len / 4, known = views[1].len / 16, n = views[3].len / 4;
  int fits = size > 0 && (size & (size - 1)) == 0 && views[0].len == 4 * size && views[1].len == 16 * known &&
             views[3].len == 4 * n && views[2].len == 16 * n;
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    fits = find(views[0].buf, (uint64_t)size, views[1].buf, known, views[2].buf, n, views[3].buf);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 4, fits ? NULL : "slots must be a power of two, one of them free, and point to what is known.");
}
