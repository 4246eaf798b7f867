/* Conditional-gradient steps over an l1 ball, row by row: dpcore/models/online/oracle_step.py.

   Sums are added up in numpy's own order: `total` as np.add.reduce does along contiguous rows, `products` as np.einsum
   does with registers of two doubles and no fused operations. Who calls it asks first whether the numpy at hand agrees. */
#include "kernels.h"

typedef struct {
  double radius, root, grid, inverse, rate, slack, diameter;
} weir_ball;

#define SCRATCH 6 /* rows of d numbers: the last is y */
#define SHORT 64  /* coordinates that are gone through again for each that is taken; of more a heap is made */

/* np.minimum and np.maximum: what is no number stays none. */
WEIR_INLINE double least(double a, double b) { return a < b || a != a ? a : b; }
WEIR_INLINE double most(double a, double b) { return a > b || a != a ? a : b; }

/* Pairwise sums by eight, in blocks of 128. */
static double total(const double *a, Py_ssize_t n) {
  if (n < 8) {
    double sum = -0.0;
    for (Py_ssize_t i = 0; i < n; i++) sum += a[i];
    return sum;
  }
  if (n > 128) {
    Py_ssize_t half = n / 2;
    half -= half % 8;
    return total(a, half) + total(a + half, n - half);
  }
  double r[8];
  for (int j = 0; j < 8; j++) r[j] = a[j];
  Py_ssize_t i = 8;
  for (; i < n - n % 8; i += 8)
    for (int j = 0; j < 8; j++) r[j] += a[i + j];
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; i < n; i++) sum += a[i];
  return sum;
}

/* <a, b> and <c, d>. */
WEIR_INLINE void products(const double *a, const double *b, const double *c, const double *d, Py_ssize_t n, double *ab,
                          double *cd) {
  double s0 = 0, s1 = 0, t0 = 0, t1 = 0;
  Py_ssize_t i = 0;
  for (; n - i >= 8; i += 8)
    for (int j = 6; j >= 0; j -= 2) {
      s0 += a[i + j] * b[i + j];
      s1 += a[i + j + 1] * b[i + j + 1];
      t0 += c[i + j] * d[i + j];
      t1 += c[i + j + 1] * d[i + j + 1];
    }
  for (; i < n; i += 2) {
    s0 += a[i] * b[i];
    t0 += c[i] * d[i];
    if (i + 1 < n) {
      s1 += a[i + 1] * b[i + 1];
      t1 += c[i + 1] * d[i + 1];
    }
  }
  *ab = s0 + s1;
  *cd = t0 + t1;
}

/* The first of the largest sizes: as integers, whose largest a compiler finds several at a time. */
WEIR_INLINE Py_ssize_t farthest(const double *a, Py_ssize_t n) {
  const int64_t sign = INT64_MAX;
  int64_t bits, largest = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    memcpy(&bits, a + i, 8);
    bits &= sign;
    largest = bits > largest ? bits : largest;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    memcpy(&bits, a + i, 8);
    if ((bits & sign) == largest) return i;
  }
  return 0;
}

static void sift(int64_t *heap, Py_ssize_t at, Py_ssize_t n) {
  int64_t key = heap[at];
  for (;;) {
    Py_ssize_t child = 2 * at + 1;
    if (child >= n) break;
    if (child + 1 < n && heap[child + 1] < heap[child]) child++;
    if (heap[child] >= key) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = key;
}

/* Takes an amount from caps, the largest of `worth` first: `take_largest_first` of dpcore/geometry/boxes.py. Keys are
   integers in the order of the doubles, turned round, with their column in the lowest bits. */
#define KEY(worth, column)                                   \
  double negated = 0.0 - (worth);                            \
  int64_t bits;                                              \
  memcpy(&bits, &negated, 8);                                \
  bits ^= (bits >> 63) & INT64_C(0x7FFFFFFFFFFFFFFF);        \
  bits = (bits & ~mask) | (column)

/* Whether the amount takes them all, whatever their order and the rounding of sums. */
WEIR_INLINE int takes_all(const double *caps, double amount, Py_ssize_t n) {
  double sum[4] = {0, 0, 0, 0};
  for (Py_ssize_t i = 0; i < n; i++) sum[i % 4] += caps[i];
  return amount >= (sum[0] + sum[1] + (sum[2] + sum[3])) * (1 + (double)n * 0x1p-50);
}

WEIR_INLINE void take_of_few(const double *worth, const double *caps, double amount, Py_ssize_t n, int64_t mask,
                             int64_t *order, double *taken) {
  for (Py_ssize_t i = 0; i < n; i++) {
    KEY(worth[i], i);
    order[i] = caps[i] > 0 ? bits : INT64_MAX;
    taken[i] = 0;
  }
  double before = 0;
  for (Py_ssize_t turn = 0; turn < n; turn++) {
    double left = amount - before;
    if (!(left > 0)) break;
    int64_t first = INT64_MAX;
    for (Py_ssize_t i = 0; i < n; i++) first = order[i] < first ? order[i] : first;
    if (first == INT64_MAX) break;
    int64_t at = first & mask;
    order[at] = INT64_MAX;
    taken[at] = least(left, caps[at]);
    before += caps[at];
  }
}

static void take_of_many(const double *worth, const double *caps, double amount, Py_ssize_t n, int64_t mask,
                         int64_t *heap, double *taken) {
  Py_ssize_t some = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    KEY(worth[i], i);
    heap[some] = bits;
    some += caps[i] > 0;
    taken[i] = 0;
  }
  for (Py_ssize_t i = some / 2; i-- > 0;) sift(heap, i, some);
  double before = 0;
  while (some) {
    double left = amount - before;
    if (!(left > 0)) break;
    int64_t at = heap[0] & mask;
    taken[at] = least(left, caps[at]);
    before += caps[at];
    heap[0] = heap[--some];
    if (some) sift(heap, 0, some);
  }
}

WEIR_WIDE static void step(const weir_ball *ball, const double *x, const double *y, double bound, Py_ssize_t n, int64_t mask,
                           double *scratch, double *fresh, double *gap) {
  double *away = scratch, *held = scratch + n, *worth = scratch + 2 * n, *taken = scratch + 3 * n;
  int64_t *order = (int64_t *)(scratch + 4 * n);
  for (Py_ssize_t i = 0; i < n; i++) {
    away[i] = x[i] - y[i];
    held[i] = fabs(x[i]);
  }
  /* The best point near x: what is taken of its coordinates, and what the best one grows by. */
  Py_ssize_t best = farthest(away, n);
  double largest = fabs(away[best]);
  double reach = ball->root * least(bound, ball->diameter);
  double spare = ball->radius - total(held, n);
  double shrink = most((reach - spare) / 2, 0.0);
  for (Py_ssize_t i = 0; i < n; i++) {
    worth[i] = copysign(1.0, x[i]) * away[i] + largest;
    held[i] *= worth[i] > 0;
  }
  if (takes_all(held, shrink, n))
    for (Py_ssize_t i = 0; i < n; i++) taken[i] = held[i];
  else if (n <= SHORT) take_of_few(worth, held, shrink, n, mask, order, taken);
  else take_of_many(worth, held, shrink, n, mask, order, taken);
  double moved = total(taken, n);
  double grow = most(least(reach - moved, spare + moved), 0.0);
  double *direction = worth;
  for (Py_ssize_t i = 0; i < n; i++) direction[i] = x[i] - copysign(taken[i], x[i]);
  direction[best] -= (double)((away[best] > 0) - (away[best] < 0)) * grow;
  for (Py_ssize_t i = 0; i < n; i++) direction[i] -= x[i];
  /* A line search towards it, and onto the grid. */
  double length, slope;
  products(direction, direction, away, direction, n, &length, &slope);
  slope = -slope;
  double g = least(most(slope / (length > 0 ? length : 1.0), 0.0), 1.0);
  if (length == 0) g = 0;
  double *after = held, *beyond = taken;
  for (Py_ssize_t i = 0; i < n; i++) {
    fresh[i] = rint((direction[i] * g + x[i]) * ball->inverse) * ball->grid + 0.0;
    after[i] = fresh[i] - y[i];
    beyond[i] = fresh[i] - 0.0;
  }
  /* How far it may be from the nearest point. */
  Py_ssize_t vertex = farthest(after, n);
  beyond[vertex] = fresh[vertex] - (after[vertex] > 0 ? -ball->radius : ball->radius);
  double dual, square;
  products(after, beyond, away, away, n, &dual, &square);
  double near = bound * bound;
  double left = near - g * (2.0 * slope - g * length);
  left = least(left, near * ball->rate);
  left = least(left, 2.0 * dual);
  left = most(left, 0.0);
  *gap = left + ball->slack * (sqrt(square) + ball->diameter);
}

/* The lowest bits that a column needs. */
static int64_t mask_of(Py_ssize_t n) {
  int64_t mask = 0;
  while (mask < n - 1) mask = 2 * mask + 1;
  return mask;
}

PyObject *weir_ball_step(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[7]; /* x, y, bound, numbers, scratch, fresh, gap */
  if (!weir_take(args, views, 7, 7u << 4)) return NULL;
  Py_ssize_t rows = views[2].len / 8, n = rows ? views[0].len / 8 / rows : 0;
  int fits = views[0].len == 8 * rows * n && views[1].len == views[0].len && views[2].len == 8 * rows &&
             views[3].len == sizeof(weir_ball) && views[4].len >= 8 * SCRATCH * n && views[5].len == views[0].len &&
             views[6].len == views[2].len;
  if (fits && n) {
    Py_BEGIN_ALLOW_THREADS
    const double *x = views[0].buf, *y = views[1].buf, *bound = views[2].buf;
    double *fresh = views[5].buf, *gap = views[6].buf;
    for (Py_ssize_t row = 0; row < rows; row++)
      step(views[3].buf, x + row * n, y + row * n, bound[row], n, mask_of(n), views[4].buf, fresh + row * n, gap + row);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 7, fits ? NULL : "x, y and fresh must be (K, d), bound and gap (K,), numbers (7,), scratch (6, d).");
}

/* One row: y, by how much the leader moved at most, and the step. before: the gap of the tick before. */
WEIR_WIDE static void follow(const weir_ball *ball, double mu, const double *x, const double *sum, const double *last,
                             double weight, double before, Py_ssize_t n, int64_t mask, double *scratch, double *fresh,
                             double *gap, double *bound) {
  double *y = scratch + 5 * n, *change = scratch;
  double down = -1.0 / mu, share = 1.0 / weight;
  for (Py_ssize_t i = 0; i < n; i++) {
    y[i] = sum[i] * down * share;
    change[i] = (sum[i] - last[i]) + mu * x[i];
  }
  double square, same;
  products(change, change, change, change, n, &square, &same);
  double moved = sqrt(square) / (mu * weight);
  *bound = moved + sqrt(moved * moved + before);
  step(ball, x, y, *bound, n, mask, scratch, fresh, gap);
}

PyObject *weir_ball_follow(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[10]; /* x, sum, last, weight, before, numbers and mu, scratch, fresh, gap, bound */
  if (!weir_take(args, views, 10, 15u << 6)) return NULL;
  Py_ssize_t rows = views[3].len / 8, n = rows ? views[0].len / 8 / rows : 0;
  int fits = views[0].len == 8 * rows * n && views[1].len == views[0].len && views[2].len == views[0].len &&
             views[3].len == 8 * rows && views[4].len == views[3].len && views[5].len == sizeof(weir_ball) + 8 &&
             views[6].len >= 8 * SCRATCH * n && views[7].len == views[0].len && views[8].len == views[3].len &&
             views[9].len == views[3].len;
  if (fits && n) {
    Py_BEGIN_ALLOW_THREADS
    const double *x = views[0].buf, *sum = views[1].buf, *last = views[2].buf, *weight = views[3].buf, *before = views[4].buf;
    const double *numbers = views[5].buf;
    double *fresh = views[7].buf, *gap = views[8].buf, *bound = views[9].buf;
    for (Py_ssize_t row = 0; row < rows; row++)
      follow(views[5].buf, numbers[sizeof(weir_ball) / 8], x + row * n, sum + row * n, last + row * n, weight[row], before[row],
             n, mask_of(n), views[6].buf, fresh + row * n, gap + row, bound + row);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 10, fits ? NULL : "x, sum, last and fresh must be (K, d), weight, before, gap and bound (K,), numbers (8,), scratch (6, d).");
}
