/* Users whom no cap touches: `within_bounds` of dpcore/users/fast_path.py says what that is. */
#include "kernels.h"

#define AHEAD 32 /* events whose columns are fetched before they are looked at: they lie anywhere */
#define MOST 256 /* events of a user that are looked at; MOST there */

enum { TICKS, KEYS, SPACING, OF_KEY, PERIOD_KEYS, TOTAL, BITS, COUNT }; /* BITS: of a row in a packed word */
enum { ASKED, STAYS, NEW };

typedef struct {
  const int64_t *caps;
  uint64_t codes[MOST];          /* (tick, key), 32 bits each */
  int64_t of[MOST], rows[MOST];  /* period and row of each event */
  uint64_t turned[MOST];         /* (key, tick) */
  unsigned char order[MOST];
} group;

/* Sorts codes, and what belongs to each. */
static void sort_codes(group *g, int n) {
  for (int i = 1; i < n; i++) {
    uint64_t code = g->codes[i];
    int64_t period = g->of[i], row = g->rows[i];
    int j = i;
    for (; j > 0 && g->codes[j - 1] > code; j--) {
      g->codes[j] = g->codes[j - 1];
      g->of[j] = g->of[j - 1];
      g->rows[j] = g->rows[j - 1];
    }
    g->codes[j] = code;
    g->of[j] = period;
    g->rows[j] = row;
  }
}

/* Whether ticks [from, to) of a user's events are within the caps: how many, how far apart, how full. */
static int ticks_fit(const group *g, int from, int to) {
  int64_t ticks = 0, before = 0, keys = 0;
  if (to - from > g->caps[TOTAL]) return 0;
  for (int i = from; i < to; i++) {
    int64_t tick = (int64_t)(g->codes[i] >> 32);
    if (i > from && g->codes[i] == g->codes[i - 1]) return 0; /* two events of a cell */
    if (i > from && tick == before) {
      if (++keys > g->caps[KEYS]) return 0;
      continue;
    }
    if (++ticks > g->caps[TICKS] || (i > from && tick - before < g->caps[SPACING])) return 0;
    before = tick;
    keys = 1;
  }
  return 1;
}

/* The same of their keys; marks the first event of each. */
static int keys_fit(group *g, int from, int to, unsigned char *out) {
  int n = to - from;
  for (int i = 0; i < n; i++) {
    uint64_t code = g->codes[from + i] << 32 | g->codes[from + i] >> 32;
    int j = i;
    for (; j > 0 && g->turned[j - 1] > code; j--) {
      g->turned[j] = g->turned[j - 1];
      g->order[j] = g->order[j - 1];
    }
    g->turned[j] = code;
    g->order[j] = (unsigned char)i;
  }
  int64_t keys = 0, times = 0;
  for (int i = 0; i < n; i++) {
    int fresh = !i || g->turned[i] >> 32 != g->turned[i - 1] >> 32;
    keys += fresh;
    times = fresh ? 1 : times + 1;
    if (keys > g->caps[PERIOD_KEYS] || times > g->caps[OF_KEY]) return 0;
  }
  for (int i = 0; i < n; i++) {
    int fresh = !i || g->turned[i] >> 32 != g->turned[i - 1] >> 32;
    out[g->rows[from + g->order[i]]] = fresh ? NEW : STAYS;
  }
  return 1;
}

static void look(group *g, int n, unsigned char *out) {
  sort_codes(g, n);
  for (int from = 0, to; from < n; from = to) {
    for (to = from + 1; to < n && g->of[to] == g->of[from]; to++) continue;
    if (!ticks_fit(g, from, to) || !keys_fit(g, from, to, out))
      for (int i = from; i < to; i++) out[g->rows[i]] = ASKED;
  }
}

#ifdef __GNUC__
#define FETCH(at, write) __builtin_prefetch(at, write)
#else
#define FETCH(at, write) (void)(at)
#endif

/* Users by the first bits of their hashes, each with the row of an event behind: sorted. */
static void walk(group *g, const uint64_t *packed, Py_ssize_t n, const uint64_t *high, const uint64_t *low,
                 const int32_t *keys, const int64_t *ticks, const int64_t *periods, unsigned char *out) {
  const uint64_t place = ((uint64_t)1 << g->caps[BITS]) - 1;
  for (Py_ssize_t from = 0, to; from < n; from = to) {
    uint64_t first = packed[from] & place, begin = packed[from] & ~place;
    int alone = 1; /* nobody else has these bits */
    for (to = from + 1;; to++) {
      if (to + AHEAD <= n) {
        uint64_t next = packed[to + AHEAD - 1] & place;
        FETCH(high + next, 0);
        FETCH(low + next, 0);
        FETCH(keys + next, 0);
        FETCH(ticks + next, 0);
        FETCH(out + next, 1);
      }
      if (to == n || (packed[to] & ~place) != begin) break;
      uint64_t row = packed[to] & place;
      alone &= high[row] == high[first] && low[row] == low[first];
    }
    if (to == from + 1) {
      out[first] = NEW;
    } else if (!alone || to - from > MOST) {
      for (Py_ssize_t i = from; i < to; i++) out[packed[i] & place] = ASKED;
    } else {
      int some = (int)(to - from);
      for (int i = 0; i < some; i++) {
        int64_t row = (int64_t)(packed[from + i] & place);
        g->codes[i] = (uint64_t)ticks[row] << 32 | (uint64_t)keys[row];
        g->of[i] = periods ? periods[row] : 0;
        g->rows[i] = row;
      }
      look(g, some, out);
    }
  }
}

PyObject *weir_untouched(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[8]; /* packed, high, low, keys (n,) int32, ticks, periods (n,) or none, caps, out */
  if (!weir_take(args, views, 8, 128)) return NULL;
  Py_ssize_t n = views[7].len;
  const uint64_t *packed = views[0].buf;
  const int32_t *keys = views[3].buf;
  const int64_t *ticks = views[4].buf, *periods = views[5].len ? views[5].buf : NULL, *caps = views[6].buf;
  int fits = views[0].len == 8 * n && views[1].len == 8 * n && views[2].len == 8 * n && views[3].len == 4 * n &&
             views[4].len == 8 * n && (!periods || views[5].len == 8 * n) && views[6].len == 8 * COUNT &&
             caps[BITS] >= 0 && caps[BITS] < 64;
  for (Py_ssize_t i = 0; fits && i < n; i++)
    fits = (packed[i] & (((uint64_t)1 << caps[BITS]) - 1)) < (uint64_t)n && ticks[i] >= 0 && ticks[i] <= INT32_MAX &&
           keys[i] >= 0;
  if (fits) {
    group g;
    g.caps = caps;
    Py_BEGIN_ALLOW_THREADS
    walk(&g, packed, n, views[1].buf, views[2].buf, keys, ticks, periods, views[7].buf);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 8, fits ? NULL : "columns must have as many rows as each other, in their ranges, and caps be seven.");
}
