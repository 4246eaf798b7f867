/* Events as rows of whole numbers within l2 bounds: dpcore/models/regression/rows.py says how.

   A block of rows is scaled, rounded, measured and shortened column by column while it stays in the
   cache. Every operation is of one row alone, in one order. */
#include "kernels.h"
#include "rows.h"
#include <float.h>

/* Where every value is inside, and its square is added; how many are not. */
WEIR_WIDE static int64_t scaled(const double *restrict raw, weir_ends e, double *restrict out,
                                double *restrict squares, Py_ssize_t n) {
  int64_t outside = 0;
  for (Py_ssize_t k = 0; k < n; k++) {
    double v = raw[k], whole = rint((v - e.middle) * e.unit);
    outside += !(v >= e.low && v <= e.high);
    out[k] = whole;
    squares[k] += whole * whole;
  }
  return outside;
}

/* Asks for numbers that are read next: every column is another place in memory. */
static void fetch(const double *numbers, Py_ssize_t n) {
#ifdef __GNUC__
  for (Py_ssize_t k = 0; k < n; k += 8) __builtin_prefetch(numbers + k);
#else
  (void)numbers, (void)n;
#endif
}

WEIR_WIDE static void moved(const double *raw, weir_ends e, double *out, uint8_t *bad, Py_ssize_t n, weir_rows *rows) {
  int64_t clipped = 0, wrong = 0;
  for (Py_ssize_t k = 0; k < n; k++) {
    double v = raw[k], inside = v < e.low ? e.low : v > e.high ? e.high : v;
    int none = !(fabs(v) <= DBL_MAX);
    clipped += inside != v && !none;
    wrong += none;
    bad[k] |= (uint8_t)none;
    out[k] = rint(((none ? e.low : inside) - e.middle) * e.unit);
  }
  rows->clipped += clipped;
  rows->non_finite += wrong;
}

WEIR_WIDE static void held(double *out, double most, Py_ssize_t n) {
  for (Py_ssize_t k = 0; k < n; k++) out[k] = out[k] < -most ? -most : out[k] > most ? most : out[k];
}

WEIR_WIDE static void square(const double *column, double *out, Py_ssize_t n) {
  for (Py_ssize_t k = 0; k < n; k++) out[k] += column[k] * column[k];
}

WEIR_WIDE static int64_t longer(const double *square, double limit, Py_ssize_t n) {
  int64_t found = 0;
  for (Py_ssize_t k = 0; k < n; k++) found += square[k] > limit;
  return found;
}

WEIR_WIDE static void factors(const double *square, weir_limit bound, double *out, Py_ssize_t n) {
  for (Py_ssize_t k = 0; k < n; k++) {
    double longer = square[k] > bound.limit ? square[k] : 1.0;
    out[k] = square[k] > bound.limit ? bound.scale / sqrt(longer) : 1.0;
  }
}

WEIR_WIDE static void square_of_nearest(const double *column, const double *factor, double *out, Py_ssize_t n) {
  for (Py_ssize_t k = 0; k < n; k++) {
    double v = rint(column[k] * factor[k]);
    out[k] += v * v;
  }
}

WEIR_WIDE static void shortened(double *column, const double *factor, const double *square, double limit,
                                Py_ssize_t n) {
  for (Py_ssize_t k = 0; k < n; k++) {
    double exact = column[k] * factor[k], nearest = rint(exact), cut = trunc(exact);
    column[k] = square[k] > limit ? cut : nearest;
  }
}

/* Shortens the long ones among n rows of the columns `from` .. `width`, of which the first `measured`
   have to fit. A row that rounding to the nearest leaves too long is cut toward zero instead. Whether
   one is too long even then. */
static int shorten(weir_block b, Py_ssize_t at, Py_ssize_t from, Py_ssize_t measured, Py_ssize_t width,
                   double *squares, weir_limit bound, Py_ssize_t n) {
  double *first = b.table + from * WEIR_STRIDE + at, *factor = b.factor, *over = b.over;
  factors(squares, bound, factor, n);
  memset(over, 0, 8 * (size_t)n);
  for (Py_ssize_t j = 0; j < measured; j++) square_of_nearest(first + j * WEIR_STRIDE, factor, over, n);
  memset(squares, 0, 8 * (size_t)n);
  for (Py_ssize_t j = 0; j < width - from; j++) {
    double *column = first + j * WEIR_STRIDE;
    shortened(column, factor, over, bound.limit, n);
    if (j < measured) square(column, squares, n);
  }
  return longer(squares, bound.limit, n) != 0;
}

/* weir_rows from `at` on that are shortened together: whole groups with a long row each, or all where these
   are many. Where they begin; *end is behind them. */
static Py_ssize_t next_span(const double *squares, double limit, Py_ssize_t at, Py_ssize_t n, int64_t many,
                            Py_ssize_t *end) {
  *end = n;
  if (many * WEIR_GROUP * 4 > n) return at;
  while (at < n && !longer(squares + at, limit, WEIR_GROUP)) at += WEIR_GROUP;
  for (*end = at; *end < n && longer(squares + *end, limit, WEIR_GROUP);) *end += WEIR_GROUP;
  return at;
}

/* Shortens the rows whose x, or whose y, is too long: the whole row, or y alone. */
static void fit(weir_rows *rows, weir_block b, Py_ssize_t n) {
  const Py_ssize_t d = rows->features, width = rows->width;
  int64_t long_x = longer(b.x, rows->x.limit, n), long_y;
  Py_ssize_t at, end;
  for (at = 0; long_x && (at = next_span(b.x, rows->x.limit, at, n, long_x, &end)) < n; at = end) {
    rows->broken |= shorten(b, at, 0, d, width, b.x + at, rows->x, end - at);
    memset(b.y + at, 0, 8 * (size_t)(end - at));
    for (Py_ssize_t j = d; j < width; j++) square(b.table + j * WEIR_STRIDE + at, b.y + at, end - at);
  }
  long_y = longer(b.y, rows->y.limit, n);
  for (at = 0; long_y && (at = next_span(b.y, rows->y.limit, at, n, long_y, &end)) < n; at = end)
    rows->broken |= shorten(b, at, d, width - d, width, b.y + at, rows->y, end - at);
  rows->clipped += long_x + long_y;
}

/* Squared lengths of x and y anew, zeros in void rows. */
static void measured(const weir_rows *rows, weir_block b, int wrong, Py_ssize_t n, Py_ssize_t end) {
  memset(b.x, 0, 8 * (size_t)end);
  memset(b.y, 0, 8 * (size_t)end);
  for (Py_ssize_t j = 0; j < rows->width; j++) {
    double *column = b.table + j * WEIR_STRIDE;
    for (Py_ssize_t k = 0; wrong && k < n; k++) column[k] = b.bad[k] ? 0.0 : column[k];
    square(column, j < rows->features ? b.x : b.y, end);
  }
}

void weir_bound(weir_rows *rows, weir_block b, Py_ssize_t first, Py_ssize_t n) {
  const Py_ssize_t d = rows->features, count = rows->width - rows->constant, given = d - rows->constant;
  const Py_ssize_t end = (n + WEIR_GROUP - 1) / WEIR_GROUP * WEIR_GROUP;
  const int64_t void_before = rows->non_finite;
  int changed = 0;
  memset(b.bad, 0, (size_t)n);
  memset(b.x, 0, 8 * (size_t)end);
  memset(b.y, 0, 8 * (size_t)end);
  for (Py_ssize_t j = 0; j < count; j++) {
    weir_ends e = rows->ends[j];
    const double *raw = rows->columns[j] + first;
    double *out = b.table + (j < given ? j : j + rows->constant) * WEIR_STRIDE;
    if (j + 1 < count) fetch(rows->columns[j + 1] + first, n);
    int outside = scaled(raw, e, out, j < given ? b.x : b.y, n) != 0;
    if (outside) moved(raw, e, out, b.bad, n, rows);
    if (e.most < DBL_MAX) held(out, e.most, n);
    changed |= outside || e.most < DBL_MAX;
  }
  double *constant = b.table + given * WEIR_STRIDE;
  for (Py_ssize_t k = 0; rows->constant && k < n; k++) {
    constant[k] = rows->one;
    b.x[k] += rows->one * rows->one;
  }
  for (Py_ssize_t j = 0; j < rows->width; j++)
    for (Py_ssize_t k = n; k < end; k++) b.table[j * WEIR_STRIDE + k] = 0.0;
  if (changed) measured(rows, b, rows->non_finite != void_before, n, end);
  fit(rows, b, end);
}
