/* Exact discrete Gaussians: dpcore/noise/discrete_gaussian.py says what they are, acceptance.py why
   these integers decide. Nothing but integers. */
#include "kernels.h"

#define PAIRS 128
#define SIZE 512 /* samples that are tried together */
#define MARGIN 512
#define HARD INT64_MIN /* no sample: for the caller to settle */
#define TABLE_BITS 13
#define TABLE (1 << TABLE_BITS)
#define STRIPS 256
#define ATTEMPTS (1 << 24) /* of a stream; never reached */

typedef struct {
  uint64_t shift, fine, bits, part, step, excess, width, table, tail, lift, curvature, start, bounds[STRIPS], counts[STRIPS];
} row;

enum { REJECTED, ACCEPTED, BETWEEN };

/* One attempt on a block: the value, and what becomes of it. */
WEIR_INLINE int attempt(uint64_t low, uint64_t uniform, const row *c, const uint8_t *tables, uint64_t *strip,
                        int64_t *value) {
  uint64_t sign = low >> TABLE_BITS & 1, rest = low >> (TABLE_BITS + 1), product = (rest >> c->shift) * c->step;
  *strip = tables[c->table * TABLE + (low & (TABLE - 1))];
  uint64_t y = *strip * c->width + (product >> c->bits << c->shift) + (rest & c->fine);
  *value = (int64_t)(y ^ (0 - sign));
  uint64_t bounds = c->bounds[*strip];
  int even = (product & c->part) >= c->excess;
  int accepted = uniform < bounds >> 32, rejected = uniform > (uint32_t)bounds;
  return even & !rejected ? BETWEEN - accepted : REJECTED;
}

/* The same of an attempt that is between the bounds of its strip, which BETWEEN says of a few as well. */
static int between(uint64_t uniform, uint64_t strip, int64_t value, const row *c, const uint64_t *powers) {
  if (strip == c->tail) return BETWEEN;
  uint64_t magnitude = (uint64_t)(value < 0 ? -value : value);
  uint64_t a = (magnitude << c->lift >> 12) + 1;
  a = (a * a >> 31) * c->curvature + c->start;
  uint64_t tangent = UINT32_MAX - ((a >> 23 & 0x1FFFFF) * UINT64_C(0xB17217F8) >> 32), drop = a >> 55;
  uint64_t chance = tangent * powers[a >> 44 & 2047] >> (drop < 63 ? drop : 63);
  uint64_t count = c->counts[strip], top = c->counts[0];
  if ((uniform + 1) * count <= chance * top) return ACCEPTED;
  return uniform * count < (chance + MARGIN) * top ? BETWEEN : REJECTED;
}

/* Samples that are tried together: the block of each one's stream that is next, where it goes, and which
   row is its. Those that are rejected stay, in front of new ones. */
typedef struct {
  const weir_streams *streams;
  const row *rows;
  const uint8_t *tables;
  const uint64_t *powers;
  int n;
  int64_t *out;
  Py_ssize_t undecided;
  uint64_t points[2 * SIZE], number[SIZE];
  int64_t to[SIZE], row[SIZE];
} trial;

static void give_up(trial *t, int i) {
  t->out[t->to[i]] = HARD;
  t->undecided++;
}

/* One attempt of all. */
static void attempt_all(trial *t) {
  uint64_t words[2 * SIZE], strip;
  int again[SIZE], n = t->n, left = 0;
  weir_aes_blocks(&t->streams->stream, t->points, words, n);
  for (int i = 0; i < n; i++) { /* a rejected one is written over later */
    again[left] = i;
    left += attempt(words[2 * i], words[2 * i + 1] >> 32, t->rows + t->row[i], t->tables, &strip, t->out + t->to[i]) != ACCEPTED;
  }
  t->n = 0;
  for (int j = 0; j < left; j++) {
    int i = again[j];
    const row *c = t->rows + t->row[i];
    uint64_t uniform = words[2 * i + 1] >> 32, before = t->number[i], next = before + 1;
    int64_t value;
    int state = attempt(words[2 * i], uniform, c, t->tables, &strip, &value);
    if (state == BETWEEN) state = between(uniform, strip, value, c, t->powers);
    if (state == BETWEEN || (state == REJECTED && next == ATTEMPTS)) give_up(t, i);
    if (state != REJECTED || next == ATTEMPTS) continue;
    int k = t->n++;
    t->points[2 * k] = t->points[2 * i] ^ before ^ next;
    t->points[2 * k + 1] = t->points[2 * i + 1];
    t->number[k] = next;
    t->to[k] = t->to[i];
    t->row[k] = t->row[i];
  }
}

/* A coordinate of some pairs, whose samples lie `width` apart. */
static void add(trial *t, const uint64_t *seeds, Py_ssize_t pairs, uint64_t coordinate, int64_t row, Py_ssize_t first,
                Py_ssize_t width) {
  for (Py_ssize_t i = 0; i < pairs;) {
    Py_ssize_t room = SIZE - t->n, n = pairs - i < room ? pairs - i : room;
    uint64_t *points = t->points + 2 * t->n, *number = t->number + t->n;
    int64_t *to = t->to + t->n, *rows = t->row + t->n;
    for (Py_ssize_t k = 0; k < n; k++) {
      points[2 * k] = seeds[2 * (i + k)] ^ coordinate << 24;
      points[2 * k + 1] = seeds[2 * (i + k) + 1];
    }
    for (Py_ssize_t k = 0; k < n; k++) {
      number[k] = 0;
      to[k] = (int64_t)(first + (i + k) * width);
      rows[k] = row;
    }
    t->n += (int)n;
    i += n;
    while (t->n == SIZE) attempt_all(t);
  }
}

/* Samples of some coordinates of all pairs; how many are undecided. of: which row a coordinate has, known of
   them: of every label the same, or of each its own. */
Py_ssize_t weir_samples(const weir_streams *streams, const weir_envelopes *from, const uint64_t *coordinates,
                        Py_ssize_t width, const int64_t *of, Py_ssize_t known, int64_t *out) {
  uint64_t seeds[2 * PAIRS];
  Py_ssize_t keys = streams->keys, pairs = streams->pairs;
  trial t;
  t.streams = streams;
  t.rows = from->rows;
  t.tables = from->tables;
  t.powers = from->powers;
  t.out = out;
  t.undecided = t.n = 0;
  for (Py_ssize_t first = 0; first < pairs; first += PAIRS) {
    Py_ssize_t some = pairs - first < PAIRS ? pairs - first : PAIRS;
    weir_seeds(streams, first, some, seeds);
    for (Py_ssize_t i = 0, n; i < some; i += n) {
      Py_ssize_t at = first + i, left = keys - at % keys;
      const int64_t *own = known > width ? of + at / keys * width : of;
      n = left < some - i ? left : some - i;
      for (Py_ssize_t j = 0; j < width; j++)
        add(&t, seeds + 2 * i, n, coordinates[j], own[j], at * width + j, width);
    }
  }
  while (t.n) attempt_all(&t);
  return t.undecided;
}

/* Envelopes of a buffer of rows, one of tables and one of powers; whether rows `of` (known) are among them. */
int weir_envelopes_of(const Py_buffer *rows, const Py_buffer *tables, const Py_buffer *of, const Py_buffer *powers,
                      weir_envelopes *out) {
  const row *all = rows->buf;
  const int64_t *which = of->buf;
  Py_ssize_t n = rows->len / (Py_ssize_t)sizeof(row);
  int fits = rows->len == n * (Py_ssize_t)sizeof(row) && tables->len % TABLE == 0 && powers->len == 8 * 2048;
  for (Py_ssize_t i = 0; fits && i < of->len / 8; i++) fits = which[i] >= 0 && which[i] < n;
  for (Py_ssize_t i = 0; fits && i < n; i++) fits = all[i].table < (uint64_t)(tables->len / TABLE);
  *out = (weir_envelopes){all, tables->buf, powers->buf};
  return fits;
}

PyObject *weir_discrete(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[WEIR_NAMED + 5]; /* and coordinates (C,), rows (V, 524), tables (W, 8192), of (C,) or (m C,), powers (2048,) */
  weir_streams streams;
  weir_envelopes from;
  if (!weir_take(args, views, WEIR_NAMED + 5, 1u << 5)) return NULL;
  Py_ssize_t width = views[6].len / 8, known = views[9].len / 8, undecided = 0;
  int fits = weir_streams_of(views, &streams) && views[5].len == 8 * streams.pairs * width && width &&
             weir_envelopes_of(&views[7], &views[8], &views[9], &views[10], &from) &&
             (known == width || (streams.keys && known == streams.pairs / streams.keys * width));
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    undecided = weir_samples(&streams, &from, views[6].buf, width, views[9].buf, known, views[5].buf);
    Py_END_ALLOW_THREADS
  }
  PyObject *done = weir_give(views, WEIR_NAMED + 5, fits ? NULL : "out must be (m, K, C), coordinates (C,), rows (V, 524), tables (W, 8192), of (C,) or (m C,), powers (2048,).");
  if (!done) return NULL;
  Py_DECREF(done);
  return PyLong_FromSsize_t(undecided);
}
