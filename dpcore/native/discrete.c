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

/* Samples that are tried together: the block of each one's stream that is next, where it goes, and which
   constants are its. Those that are rejected stay, in front of new ones. */
typedef struct {
  const weir_streams *streams;
  const constants *c;
  int same, n;
  int64_t *out;
  Py_ssize_t undecided;
  uint64_t points[2 * SIZE], number[SIZE];
  int64_t to[SIZE], column[SIZE];
} trial;

/* One attempt of all. */
static void attempt_all(trial *t) {
  uint64_t words[2 * SIZE], state[SIZE];
  int64_t values[SIZE], again[SIZE];
  int n = t->n, left = 0;
  weir_aes_blocks(&t->streams->stream, t->points, words, n);
  uint64_t seen = t->same ? alike(words, t->c, values, state, n) : unlike(words, t->column, t->c, values, state, n);
  for (int i = 0; i < n; i++) t->out[t->to[i]] = values[i]; /* a rejected one is written over later */
  if (seen >> 1)
    for (int i = 0; i < n; i++)
      if (state[i] >> 1) {
        t->out[t->to[i]] = HARD;
        t->undecided++;
      }
  for (int i = 0; i < n; i++) {
    again[left] = i;
    left += !state[i];
  }
  t->n = 0;
  for (int j = 0; j < left; j++) {
    int64_t i = again[j];
    uint64_t before = t->number[i], next = before + 1;
    if (next == ATTEMPTS) {
      t->out[t->to[i]] = HARD;
      t->undecided++;
      continue;
    }
    int k = t->n++;
    t->points[2 * k] = t->points[2 * i] ^ before ^ next;
    t->points[2 * k + 1] = t->points[2 * i + 1];
    t->number[k] = next;
    t->to[k] = t->to[i];
    t->column[k] = t->column[i];
  }
}

/* Until none is left. */
static void settle(trial *t) {
  while (t->n) attempt_all(t);
}

/* A coordinate of some pairs, whose samples lie `width` apart. */
static void add(trial *t, const uint64_t *seeds, Py_ssize_t pairs, uint64_t coordinate, Py_ssize_t column,
                Py_ssize_t first, Py_ssize_t width) {
  for (Py_ssize_t i = 0; i < pairs;) {
    Py_ssize_t room = SIZE - t->n, n = pairs - i < room ? pairs - i : room;
    uint64_t *points = t->points + 2 * t->n, *number = t->number + t->n;
    int64_t *to = t->to + t->n, *columns = t->column + t->n;
    for (Py_ssize_t k = 0; k < n; k++) {
      points[2 * k] = seeds[2 * (i + k)] ^ coordinate << 24;
      points[2 * k + 1] = seeds[2 * (i + k) + 1];
    }
    for (Py_ssize_t k = 0; k < n; k++) {
      number[k] = 0;
      to[k] = (int64_t)(first + (i + k) * width);
      columns[k] = (int64_t)column;
    }
    t->n += (int)n;
    i += n;
    while (t->n == SIZE) attempt_all(t);
  }
}

/* known: how many constants there are: 1, or one a coordinate, or these of every label. Where a label has one
   for many keys, these are tried without those of the next. */
static Py_ssize_t sample(const weir_streams *streams, const uint64_t *coordinates, Py_ssize_t width,
                         const constants *c, Py_ssize_t known, int64_t *out) {
  uint64_t seeds[2 * PAIRS];
  Py_ssize_t keys = streams->keys, base = 0;
  int a_row = known > 1 && width == 1 && keys >= SIZE;
  constants row = *c;
  trial t = {.streams = streams, .c = a_row ? &row : c, .same = known == 1 || a_row, .out = out};
  for (Py_ssize_t first = 0; first < streams->pairs; first += PAIRS) {
    Py_ssize_t pairs = streams->pairs - first < PAIRS ? streams->pairs - first : PAIRS;
    weir_seeds(streams, first, pairs, seeds);
    for (Py_ssize_t i = 0, n; i < pairs; i += n) {
      Py_ssize_t at = first + i, key = at % keys;
      n = keys - key < pairs - i ? keys - key : pairs - i;
      if (!key && at && known > width) {
        base += width;
        if (a_row) {
          settle(&t);
          row = (constants){c->shift + base, c->mask + base, c->lift + base, c->curvature + base, c->start + base, c->powers};
        }
      }
      for (Py_ssize_t j = 0; j < width; j++)
        add(&t, seeds + 2 * i, n, coordinates[j], base + j, at * width + j, width);
    }
  }
  settle(&t);
  return t.undecided;
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
