/* Events bounded, and kept or summed: rows.c and products.c say how. */
#include "kernels.h"
#include "rows.h"
#include <stdlib.h>

/* The arguments of a kernel: the columns, then buffers; and what they ask for. */
typedef struct {
  Py_buffer *columns, views[9];
  const double **starts;
  Py_ssize_t count, events;
  weir_rows rows;
  weir_block block;
  void *room;
} Task;

enum { ENDS, SHAPE, BOUNDS, COUNTS };

static void drop(Task *t) {
  for (Py_ssize_t j = 0; j < t->count; j++) PyBuffer_Release(&t->columns[j]);
  free(t->columns);
  free(t->starts);
  free(t->room);
}

/* The columns of a tuple, all as long; 0 behind an error. */
static int columns_of(PyObject *given, Task *t) {
  Py_ssize_t count = PyTuple_Size(given);
  if (count < 1) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "an event has one column at least.");
    return 0;
  }
  t->columns = calloc((size_t)count, sizeof(Py_buffer));
  t->starts = calloc((size_t)count, sizeof(double *));
  if (!t->columns || !t->starts) {
    PyErr_NoMemory();
    return 0;
  }
  for (; t->count < count; t->count++) {
    Py_buffer *view = &t->columns[t->count];
    if (PyObject_GetBuffer(PyTuple_GetItem(given, t->count), view, PyBUF_SIMPLE)) return 0;
    t->starts[t->count] = view->buf;
    if ((uintptr_t)view->buf % 8 || view->len % 8 || view->len != t->columns[0].len) {
      PyBuffer_Release(view);
      PyErr_SetString(PyExc_ValueError, "columns must be float64, aligned and as long as each other.");
      return 0;
    }
  }
  t->events = t->columns[0].len / 8;
  return 1;
}

/* Arguments (columns, ends, shape, bounds, counts, ...), `more` buffers behind them, of which those of
   `writable` are written to. 0 behind an error, with nothing held. */
static int begin(PyObject *args, Task *t, int more, unsigned writable) {
  memset(t, 0, sizeof *t);
  PyObject *given = PyTuple_Size(args) == 5 + more ? PyTuple_GetItem(args, 0) : NULL;
  if (!given || !PyTuple_Check(given)) {
    PyErr_SetString(PyExc_TypeError, "expected a tuple of columns, and buffers.");
    return 0;
  }
  PyObject *rest = PyTuple_GetSlice(args, 1, 5 + more);
  if (!rest) return 0;
  int taken = weir_take(rest, t->views, 4 + more, writable << 4 | 1u << COUNTS);
  Py_DECREF(rest);
  if (!taken) return 0;
  int fits = columns_of(given, t);
  for (int i = 0; fits && i < 4 + more; i++) {
    fits = (uintptr_t)t->views[i].buf % 8 == 0;
    if (!fits) PyErr_SetString(PyExc_ValueError, "buffers must be aligned.");
  }
  if (!fits) {
    drop(t);
    for (int i = 0; i < 4 + more; i++) PyBuffer_Release(&t->views[i]);
    return 0;
  }
  return 1;
}

/* Reads what the buffers say; NULL, or what does not fit. */
static const char *prepared(Task *t) {
  const Py_buffer *v = t->views;
  if (v[SHAPE].len != 8 * 3 || v[BOUNDS].len != 8 * 5 || v[COUNTS].len != 8 * 2)
    return "shape must be (3,), bounds (5,), counts (2,).";
  const int64_t *shape = v[SHAPE].buf;
  const double *bounds = v[BOUNDS].buf;
  weir_rows *r = &t->rows;
  r->columns = t->starts;
  r->ends = v[ENDS].buf;
  r->features = shape[0];
  r->width = shape[1];
  r->constant = shape[2];
  if (r->constant < 0 || r->constant > 1 || r->features < 1 || r->width <= r->features ||
      r->width > 1 << 12 || r->width - r->constant != t->count ||
      v[ENDS].len != (Py_ssize_t)sizeof(weir_ends) * t->count)
    return "columns, their ends and the shape of a row do not fit each other.";
  r->one = bounds[0];
  r->x = (weir_limit){bounds[1], bounds[2]};
  r->y = (weir_limit){bounds[3], bounds[4]};
  size_t numbers = (size_t)(r->width + 4) * WEIR_STRIDE;
  t->room = malloc(8 * numbers + WEIR_STRIDE + 64);
  if (!t->room) return "there is no memory for a block of rows.";
  double *table = (double *)(((uintptr_t)t->room + 63) / 64 * 64);
  double *x = table + r->width * WEIR_STRIDE;
  t->block = (weir_block){table, x, x + WEIR_STRIDE, x + 2 * WEIR_STRIDE, x + 3 * WEIR_STRIDE, (uint8_t *)(x + 4 * WEIR_STRIDE)};
  return NULL;
}

static PyObject *end(Task *t, int more, const char *fault) {
  int64_t *counts = t->views[COUNTS].buf;
  int64_t broken = t->rows.broken;
  if (!fault) {
    counts[0] += t->rows.clipped;
    counts[1] += t->rows.non_finite;
  }
  drop(t);
  PyObject *found = weir_give(t->views, 4 + more, fault);
  if (!found) return NULL;
  Py_DECREF(found);
  return PyBool_FromLong(!broken);
}

/* event_rows(columns, ends, shape, bounds, counts, table): into (width, >= events), column by column. */
PyObject *weir_event_rows(PyObject *self, PyObject *args) {
  (void)self;
  Task t;
  if (!begin(args, &t, 1, 1)) return NULL;
  const char *fault = prepared(&t);
  const Py_ssize_t width = t.rows.width, stride = width ? t.views[4].len / 8 / width : 0;
  if (!fault && (stride < t.events || t.views[4].len != 8 * stride * width))
    fault = "there is no room for the rows.";
  if (!fault) {
    double *out = t.views[4].buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t first = 0; first < t.events; first += WEIR_BLOCK) {
      Py_ssize_t n = t.events - first < WEIR_BLOCK ? t.events - first : WEIR_BLOCK;
      weir_bound(&t.rows, t.block, first, n);
      for (Py_ssize_t j = 0; j < width; j++)
        memcpy(out + j * stride + first, t.block.table + j * WEIR_STRIDE, 8 * (size_t)n);
    }
    Py_END_ALLOW_THREADS
  }
  return end(&t, 1, fault);
}

/* Adds the upper triangle of x x', x y_1 ... x y_k and, if there is room, y_1^2 ... y_k^2. */
static void add(const double *products, Py_ssize_t d, Py_ssize_t width, int squares, int64_t *out) {
  uint64_t *to = (uint64_t *)out; /* of whole numbers: a sum that is too large turns over, as in numpy */
  for (Py_ssize_t i = 0; i < d; i++)
    for (Py_ssize_t j = i; j < d; j++) *to++ += (uint64_t)(int64_t)products[i * width + j];
  for (Py_ssize_t j = d; j < width; j++)
    for (Py_ssize_t i = 0; i < d; i++) *to++ += (uint64_t)(int64_t)products[i * width + j];
  for (Py_ssize_t j = d; squares && j < width; j++) *to++ += (uint64_t)(int64_t)products[j * (width + 1)];
}

/* event_sums(columns, ends, shape, bounds, counts, starts, ends, cells, sums, kind): rows starts[i] ..
   ends[i] are of cell cells[i], and their products are added to sums (cells, D). kind: how many rows
   add up exactly; whether squares of targets are kept; numbers in a register, at most. */
PyObject *weir_event_sums(PyObject *self, PyObject *args) {
  (void)self;
  Task t;
  if (!begin(args, &t, 5, 1u << 3)) return NULL;
  const char *fault = prepared(&t);
  const Py_buffer *v = t.views + 4;
  const int64_t *starts = v[0].buf, *ends = v[1].buf, *cells = v[2].buf, *kind = v[4].buf;
  const Py_ssize_t runs = v[2].len / 8, d = t.rows.features, width = t.rows.width;
  Py_ssize_t size = 0, most = 0;
  double *products = NULL;
  if (!fault && (v[4].len != 24 || v[0].len != v[2].len || v[1].len != v[2].len || v[2].len % 8 || kind[0] < 1))
    fault = "starts, ends and cells must be as long as each other, kind (3,).";
  if (!fault) {
    size = d * (d + 1) / 2 + (width - d) * (d + (kind[1] != 0));
    int fits = v[3].len % (8 * size) == 0;
    for (Py_ssize_t i = 0; fits && i < runs; i++)
      fits = 0 <= starts[i] && starts[i] <= ends[i] && ends[i] <= t.events && cells[i] >= 0 &&
             cells[i] < v[3].len / (8 * size);
    if (!fits) fault = "runs of rows, cells and sums do not fit each other.";
    most = WEIR_NUMBERS / width / WEIR_GROUP * WEIR_GROUP;
    most = most < 64 ? 64 : most > WEIR_BLOCK ? WEIR_BLOCK : most;
    if (most > kind[0]) most = kind[0];
    products = fits ? malloc(8 * (size_t)(width * width)) : NULL;
    if (fits && !products) fault = "there is no memory for products.";
  }
  if (!fault) {
    int64_t *sums = v[3].buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < runs; i++)
      for (Py_ssize_t first = starts[i]; first < ends[i]; first += most) {
        Py_ssize_t n = ends[i] - first < most ? ends[i] - first : most;
        weir_bound(&t.rows, t.block, first, n);
        weir_products(t.block.table, (n + WEIR_GROUP - 1) / WEIR_GROUP * WEIR_GROUP, width, kind[2], products);
        add(products, d, width, kind[1] != 0, sums + cells[i] * size);
      }
    Py_END_ALLOW_THREADS
  }
  free(products);
  return end(&t, 5, fault);
}
