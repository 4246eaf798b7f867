/* Ticks of times, and the smallest and largest of whole numbers: `extremes` of dpcore/arrays.py, and
   `Clock.ticks_within` of dpcore/leaves/clock.py. */
#include "kernels.h"

#define BLOCK 1024 /* numbers that stay in the first-level cache between two looks */
#define NEAR 0x1p49

typedef struct {
  int64_t least, most;
} span;

WEIR_INLINE span widened(span s, const int64_t *values, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; i++) {
    s.least = values[i] < s.least ? values[i] : s.least;
    s.most = values[i] > s.most ? values[i] : s.most;
  }
  return s;
}

WEIR_WIDE static span span_of(const int64_t *values, Py_ssize_t n) {
  return widened((span){INT64_MAX, INT64_MIN}, values, n);
}

/* Rounded down. */
WEIR_INLINE int64_t tick_of(int64_t time, int64_t start, int64_t period) {
  int64_t offset = (int64_t)((uint64_t)time - (uint64_t)start), tick = offset / period;
  return tick - (offset % period < 0);
}

/* Offsets of fewer than 50 bits are divided in doubles. The quotient is off by less than 2^-52 of its size,
   so by less than a quarter of 1 / period: cut off, it is the tick or one next to it, and the rest says which. */
WEIR_WIDE static span ticks_of(const int64_t *restrict times, Py_ssize_t n, int64_t start, int64_t period,
                               int64_t *restrict out) {
  span all = {INT64_MAX, INT64_MIN};
  double inverse = 1.0 / (double)period;
  for (Py_ssize_t first = 0; first < n; first += BLOCK) {
    Py_ssize_t size = n - first < BLOCK ? n - first : BLOCK;
    const int64_t *from = times + first;
    int64_t *to = out + first;
    span s = widened((span){INT64_MAX, INT64_MIN}, from, size);
    double low = (double)s.least - (double)start, high = (double)s.most - (double)start;
    int near = low > -NEAR && high < NEAR && (double)period < NEAR;
    for (Py_ssize_t i = 0; near && i < size; i++) {
      int64_t offset = from[i] - start, tick = (int64_t)((double)offset * inverse), rest = offset - tick * period;
      to[i] = tick + (rest >= period) - (rest < 0);
    }
    for (Py_ssize_t i = 0; !near && i < size; i++) to[i] = tick_of(from[i], start, period);
    all.least = s.least < all.least ? s.least : all.least;
    all.most = s.most > all.most ? s.most : all.most;
  }
  return all;
}

/* extremes(values, out): into out (2,). */
PyObject *weir_extremes(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[2];
  if (!weir_take(args, views, 2, 2)) return NULL;
  int fits = views[0].len > 0 && views[0].len % 8 == 0 && views[1].len == 16;
  if (fits) {
    span *out = views[1].buf;
    Py_BEGIN_ALLOW_THREADS
    *out = span_of(views[0].buf, views[0].len / 8);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 2, fits ? NULL : "values must be (n,), n > 0, ends (2,).");
}

/* ticks(times, clock, out, ends): out (n,); clock: start and period; ends (2,) of the times. */
PyObject *weir_ticks(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[4];
  if (!weir_take(args, views, 4, 12)) return NULL;
  const int64_t *clock = views[1].buf;
  int fits = views[0].len > 0 && views[0].len % 8 == 0 && views[1].len == 16 && views[2].len == views[0].len &&
             views[3].len == 16;
  if (fits) fits = clock[1] > 0;
  if (fits) {
    span *ends = views[3].buf;
    Py_BEGIN_ALLOW_THREADS
    *ends = ticks_of(views[0].buf, views[0].len / 8, clock[0], clock[1], views[2].buf);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 4, fits ? NULL : "times and ticks must be (n,), n > 0, the clock and ends (2,), the period above 0.");
}
