/* How far noisy counts of keys come above their limits at most: `_excess` of dpcore/discovery/prefilter.py. */
#include "kernels.h"

#define STATE 5 /* numbers of a key between ticks, buffers aside, and drawn at one */

typedef struct {
  double step, inverse, scale, fall, limit;
} curve;

typedef struct {
  weir_streams streams; /* of all ticks; one is looked at at a time */
  weir_envelopes from;
  const int64_t *ticks, *rows, *of;
  const uint64_t *digests;
  const double *counts, *theta, *omega, *largest;
  const curve *curves;
  uint64_t coordinate;
  Py_ssize_t cells, length, keys, poles;
  double *out;
} job;

/* One tick of the filter, a loop along keys for each step. unit: what was drawn; y: a row to work in. */
WEIR_WIDE static void tick(const job *j, const curve *c, double *unit, double *y, double *buffers, double *carried,
                           const double *count) {
  Py_ssize_t n = j->keys;
  double largest = *j->largest, *out = j->out;
  for (Py_ssize_t i = 0; i < n; i++) {
    double x = unit[i] * c->step;
    out[i] = fabs(x) < largest ? out[i] : (double)INFINITY;
    y[i] = unit[i] = x * c->inverse;
  }
  for (Py_ssize_t p = 0; p < j->poles; p++) {
    double *u = buffers + p * n, theta = j->theta[p], omega = j->omega[p];
    for (Py_ssize_t i = 0; i < n; i++) {
      y[i] += u[i] * omega;
      u[i] = u[i] * theta + unit[i];
    }
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    double over = y[i] * c->scale + carried[i] + count[i] - c->limit;
    carried[i] += y[i] * c->fall;
    out[i] = over > out[i] ? over : out[i];
  }
}

/* scratch: zeros, (2 + STATE + poles, K). */
static void follow(const job *j, double *scratch) {
  Py_ssize_t n = j->keys, cell = 0;
  uint64_t *chain = (uint64_t *)scratch;
  double *unit = scratch + 2 * n, *y = unit + n, *count = y + n, *carried = count + n, *buffers = carried + n;
  int64_t *whole = (int64_t *)(buffers + j->poles * n);
  weir_streams now = j->streams;
  now.digests = chain;
  now.pairs = n;
  for (Py_ssize_t i = 0; i < n; i++) j->out[i] = -(double)INFINITY;
  for (Py_ssize_t t = 0; t < j->length; t++) {
    for (; cell < j->cells && j->ticks[cell] == t; cell++) {
      int64_t row = j->rows[cell];
      chain[2 * row] ^= j->digests[2 * cell];
      chain[2 * row + 1] ^= j->digests[2 * cell + 1];
      count[row] += j->counts[cell];
    }
    now.labels = j->streams.labels + 2 * t;
    if (j->of) {
      weir_samples(&now, &j->from, &j->coordinate, 1, j->of + t, 1, whole);
      for (Py_ssize_t i = 0; i < n; i++) unit[i] = (double)whole[i];
    } else {
      weir_column(&now, j->coordinate, (uint64_t *)unit);
      weir_normals(unit, n);
    }
    tick(j, j->curves + t, unit, y, buffers, carried, count);
  }
}

/* Cells in the order of ticks, all of them of ticks and keys that there are. */
static int in_order(const job *j) {
  for (Py_ssize_t i = 0; i < j->cells; i++)
    if (j->ticks[i] < (i ? j->ticks[i - 1] : 0) || j->ticks[i] >= j->length || j->rows[i] < 0 || j->rows[i] >= j->keys)
      return 0;
  return 1;
}

PyObject *weir_excess(PyObject *self, PyObject *args) {
  (void)self;
  /* mac, stream, heads (K, 2), labels (n, 2), out (K,); of cells ticks (m,), keys (m,), digests (m, 2), counts (m,);
     curves (n, 5), poles (2, P), coordinate and largest (1,); of exact noise rows, tables, of (n,), powers. */
  enum { MAC, STREAM, HEADS, LABELS, OUT, TICKS, KEYS, DIGESTS, COUNTS, CURVES, POLES, COORDINATE, LARGEST, ROWS, TABLES, OF, POWERS, ALL };
  Py_buffer views[ALL];
  if (!weir_take(args, views, ALL, 1u << OUT)) return NULL;
  job j = {.ticks = views[TICKS].buf, .rows = views[KEYS].buf, .digests = views[DIGESTS].buf, .counts = views[COUNTS].buf,
           .curves = views[CURVES].buf, .theta = views[POLES].buf, .largest = views[LARGEST].buf, .out = views[OUT].buf,
           .cells = views[TICKS].len / 8, .length = views[LABELS].len / 16, .keys = views[OUT].len / 8,
           .poles = views[POLES].len / 16};
  j.omega = j.theta + j.poles;
  j.of = views[OF].len ? views[OF].buf : NULL;
  j.streams = (weir_streams){.heads = views[HEADS].buf, .labels = views[LABELS].buf, .keys = j.keys};
  int fits = weir_aes_schedule(&views[MAC], &j.streams.mac) && weir_aes_schedule(&views[STREAM], &j.streams.stream) &&
             views[HEADS].len == 16 * j.keys && views[OUT].len == 8 * j.keys && views[LABELS].len == 16 * j.length &&
             views[TICKS].len == 8 * j.cells && views[KEYS].len == 8 * j.cells && views[DIGESTS].len == 16 * j.cells &&
             views[COUNTS].len == 8 * j.cells && views[CURVES].len == (Py_ssize_t)sizeof(curve) * j.length &&
             views[POLES].len == 16 * j.poles && views[COORDINATE].len == 8 && views[LARGEST].len == 8 && in_order(&j) &&
             (!j.of || (views[OF].len == 8 * j.length &&
                        weir_envelopes_of(&views[ROWS], &views[TABLES], &views[OF], &views[POWERS], &j.from)));
  double *scratch = fits ? PyMem_Calloc((size_t)(j.keys * (2 + STATE + j.poles)) + 1, 8) : NULL;
  if (scratch) {
    j.coordinate = *(const uint64_t *)views[COORDINATE].buf;
    Py_BEGIN_ALLOW_THREADS
    follow(&j, scratch);
    Py_END_ALLOW_THREADS
    PyMem_Free(scratch);
  }
  return weir_give(views, ALL, scratch ? NULL : "cells must be sorted by tick, heads be (K, 2), labels (n, 2), out (K,), "
                                                "ticks, keys and counts (m,), digests (m, 2), curves (n, 5), poles (2, P), of (n,) or none.");
}
