/* Normals read off a table: dpcore/noise/near.py says how near they are. */
#include "kernels.h"

#define PAIRS 128

static void near(const weir_streams *streams, uint64_t coordinate, const float *table, float *out) {
  uint64_t seeds[2 * PAIRS], words[2 * PAIRS];
  for (Py_ssize_t first = 0; first < streams->pairs; first += PAIRS) {
    Py_ssize_t n = streams->pairs - first < PAIRS ? streams->pairs - first : PAIRS;
    weir_seeds(streams, first, n, seeds);
    for (Py_ssize_t i = 0; i < n; i++) seeds[2 * i] ^= coordinate / 2;
    weir_aes_blocks(&streams->stream, seeds, words, n);
    for (Py_ssize_t i = 0; i < n; i++) {
      uint64_t word = words[2 * i + coordinate % 2];
      float found = table[word >> 48];
      if (found != found) { /* an edge of the table */
        double exact;
        memcpy(&exact, &word, 8);
        weir_normals(&exact, 1);
        found = (float)exact;
      }
      out[first + i] = found;
    }
  }
}

PyObject *weir_near(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[WEIR_NAMED + 2]; /* and the coordinate (1,), the table (65536,) */
  weir_streams streams;
  if (!weir_take(args, views, WEIR_NAMED + 2, 1u << 5)) return NULL;
  int fits = weir_streams_of(views, &streams) && views[5].len == 4 * streams.pairs && views[6].len == 8 &&
             views[7].len == 4 * 65536;
  if (fits) {
    uint64_t coordinate = *(const uint64_t *)views[6].buf;
    Py_BEGIN_ALLOW_THREADS
    near(&streams, coordinate, views[7].buf, views[5].buf);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, WEIR_NAMED + 2, fits ? NULL : "out must be (m, K) of single precision, the table (65536,).");
}
