/* Exact discrete Gaussians: dpcore/noise/discrete_gaussian.py says what they are, acceptance.py why
   these integers decide. Nothing but integers. */
#include "kernels.h"

#define PAIRS 128
#define SIZE 512 /* samples that are tried together */
#define MARGIN 512
#define HARD INT64_MIN /* no sample: for the caller to settle */
#define LAST 14 /* beyond this bucket nothing is accepted without being settled */
#define ATTEMPTS (1 << 24) /* of a stream; never reached */

typedef struct {
  const uint64_t *shift, *mask, *lift, *curvature, *start, *powers;
} constants;

/* One attempt on a block: the value, and what became of it: 0 rejected, 1 accepted, 2 or 3 undecided.
   Those below make many, and return the union of what became of them. */
WEIR_INLINE uint64_t attempt(uint64_t low, uint64_t high, uint64_t shift, uint64_t mask, uint64_t lift,
                               uint64_t curvature, uint64_t start, const uint64_t *powers, int64_t *value) {
  uint64_t rest = low >> shift, sign = rest & 1;
  rest >>= 1;
  uint64_t ended = rest | 1 << (LAST + 1), lowest = ended & (0 - ended); /* 2^v, v <= 15 */
  uint64_t v = (uint64_t)((lowest & 0xAAAA) != 0) | (uint64_t)((lowest & 0xCCCC) != 0) << 1 |
               (uint64_t)((lowest & 0xF0F0) != 0) << 2 | (uint64_t)((lowest & 0xFF00) != 0) << 3;
  uint64_t reach = low & mask;
  *value = (int64_t)(((v << shift) + reach) ^ (0 - sign));
  v = v < LAST ? v : LAST;
  uint64_t a = (((reach + sign) << lift) >> 12) + 1 + (v << 28);
  a = (a * a >> 31) * curvature + start - (v << 55);
  uint64_t tangent = UINT32_MAX - ((a >> 23 & 0x1FFFFF) * UINT64_C(0xB17217F8) >> 32);
  uint64_t drop = a >> 55;
  uint64_t chance = tangent * powers[a >> 44 & 2047] >> (drop < 63 ? drop : 63);
  uint64_t uniform = high >> 32;
  uint64_t hard = (uint64_t)(uniform - chance < MARGIN) | (uint64_t)(rest == 0);
  return hard << 1 | (uint64_t)(uniform < chance);
}

WEIR_WIDE static uint64_t alike(const uint64_t *restrict words, const constants *c, int64_t *restrict values,
                            uint64_t *restrict state, int n) {
  uint64_t shift = *c->shift, mask = *c->mask, lift = *c->lift, curvature = *c->curvature, start = *c->start;
  const uint64_t *powers = c->powers;
  uint64_t seen = 0;
  for (int i = 0; i < n; i++)
    seen |= state[i] =
        attempt(words[2 * i], words[2 * i + 1], shift, mask, lift, curvature, start, powers, &values[i]);
  return seen;
}

WEIR_WIDE static uint64_t unlike(const uint64_t *restrict words, const int64_t *restrict column, const constants *c,
                             int64_t *restrict values, uint64_t *restrict state, int n) {
  const uint64_t *shift = c->shift, *mask = c->mask, *lift = c->lift, *curvature = c->curvature, *start = c->start;
  const uint64_t *powers = c->powers;
  uint64_t seen = 0;
  for (int i = 0; i < n; i++) {
    int64_t at = column[i];
    seen |= state[i] = attempt(words[2 * i], words[2 * i + 1], shift[at], mask[at], lift[at], curvature[at], start[at],
                               powers, &values[i]);
  }
  return seen;
}

/* Marks the undecided ones, and counts them. */
static Py_ssize_t hard(const uint64_t *state, int64_t *values, int n) {
  Py_ssize_t count = 0;
  for (int i = 0; i < n; i++)
    if (state[i] >> 1) {
      values[i] = HARD;
      count++;
    }
  return count;
}

/* Samples of (seed, coordinate) points, until all are accepted or undecided; n <= SIZE. */
static Py_ssize_t settle(const weir_streams *streams, const uint64_t *points, const int64_t *columns,
                         const constants *c, int same, int64_t *out, int n) {
  uint64_t source[2 * SIZE], words[2 * SIZE], state[SIZE];
  int64_t values[SIZE], at[SIZE], column[SIZE];
  weir_aes_blocks(&streams->stream, points, words, n);
  uint64_t seen = same ? alike(words, c, out, state, n) : unlike(words, columns, c, out, state, n);
  Py_ssize_t undecided = seen >> 1 ? hard(state, out, n) : 0;
  int left = 0;
  for (int i = 0; i < n; i++) {
    at[left] = i;
    left += !state[i];
  }
  for (uint64_t number = 1; (n = left); number++) {
    if (number == ATTEMPTS) {
      for (int i = 0; i < n; i++) out[at[i]] = HARD;
      return undecided + n;
    }
    for (int i = 0; i < n; i++) {
      source[2 * i] = points[2 * at[i]] ^ number;
      source[2 * i + 1] = points[2 * at[i] + 1];
    }
    weir_aes_blocks(&streams->stream, source, words, n);
    if (same) {
      seen = alike(words, c, values, state, n);
    } else {
      for (int i = 0; i < n; i++) column[i] = columns[at[i]];
      seen = unlike(words, column, c, values, state, n);
    }
    undecided += seen >> 1 ? hard(state, values, n) : 0;
    left = 0;
    for (int i = 0; i < n; i++) {
      int64_t place = at[i];
      out[place] = values[i]; /* a rejected one is written over later */
      at[left] = place;
      left += !state[i];
    }
  }
  return undecided;
}

/* known: how many constants there are: 1, or one a coordinate, or these of every label. */
static Py_ssize_t sample(const weir_streams *streams, const uint64_t *coordinates, Py_ssize_t width,
                         const constants *c, Py_ssize_t known, int64_t *out) {
  uint64_t seeds[2 * PAIRS], points[2 * SIZE];
  int64_t columns[SIZE];
  Py_ssize_t undecided = 0, made = 0, key = 0, base = 0;
  int n = 0, same = known == 1;
  for (Py_ssize_t first = 0; first < streams->pairs; first += PAIRS) {
    Py_ssize_t pairs = streams->pairs - first < PAIRS ? streams->pairs - first : PAIRS;
    weir_seeds(streams, first, pairs, seeds);
    for (Py_ssize_t i = 0; i < pairs; i++, key++) {
      if (key == streams->keys) {
        key = 0;
        base += known > width ? width : 0;
      }
      for (Py_ssize_t j = 0; j < width; j++) {
        points[2 * n] = seeds[2 * i] ^ coordinates[j] << 24;
        points[2 * n + 1] = seeds[2 * i + 1];
        columns[n++] = (int64_t)(base + j);
        if (n == SIZE) {
          undecided += settle(streams, points, columns, c, same, out + made, n);
          made += n;
          n = 0;
        }
      }
    }
  }
  return undecided + settle(streams, points, columns, c, same, out + made, n);
}

PyObject *weir_discrete(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[WEIR_NAMED + 3]; /* and coordinates (C,), constants (5, 1), (5, C) or (5, m C), powers (2048,) */
  weir_streams streams;
  if (!weir_take(args, views, WEIR_NAMED + 3, 1u << 5)) return NULL;
  Py_ssize_t width = views[6].len / 8, known = views[7].len / 40, undecided = 0;
  int fits = weir_streams_of(views, &streams) && views[5].len == 8 * streams.pairs * width && width &&
             views[7].len == 40 * known && (known == 1 || known == width || (streams.keys && known == streams.pairs / streams.keys * width)) && views[8].len == 8 * 2048;
  if (fits) {
    const uint64_t *rows = views[7].buf;
    constants c = {rows, rows + known, rows + 2 * known, rows + 3 * known, rows + 4 * known, views[8].buf};
    Py_BEGIN_ALLOW_THREADS
    undecided = sample(&streams, views[6].buf, width, &c, known, views[5].buf);
    Py_END_ALLOW_THREADS
  }
  PyObject *done = weir_give(views, WEIR_NAMED + 3, fits ? NULL : "out must be (m, K, C), coordinates (C,), constants (5, 1), (5, C) or (5, m C), powers (2048,).");
  if (!done) return NULL;
  Py_DECREF(done);
  return PyLong_FromSsize_t(undecided);
}
