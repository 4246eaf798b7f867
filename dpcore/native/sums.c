/* Events clipped, rounded to the grid and summed by cell in one pass: dpcore/aggregates/event_sums.py. */
#include "kernels.h"
#include <float.h>

#define BLOCK 256 /* events at a time: their cells stay in the first-level cache */
#define MOST_COLUMNS 64

enum { COUNT, VALUE, SQUARE };

/* What an event adds to a coordinate: `most` of a count, else its value in a column, moved into [low, high],
   from the centre, in units, within [least, most]. Of each column and clip one channel counts what was
   moved, and of each column one what is no number. */
typedef struct {
  int64_t kind, column, counts_moved, counts_void;
  double low, high, centre, offset, unit, least, most;
} Channel;

typedef struct {
  int64_t moved, none;
} Seen;

WEIR_WIDE static Seen amounts(const double *restrict raw, Channel c, int64_t *restrict to, Py_ssize_t n) {
  double out[BLOCK];
  double fill = c.low > 0.0 ? c.low : c.high < 0.0 ? c.high : 0.0;
  int64_t moved = 0, none = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    double v = raw[i], inside = v < c.low ? c.low : v > c.high ? c.high : v;
    int gone = !(fabs(v) <= DBL_MAX);
    moved += (inside != v) & !gone;
    none += gone;
    out[i] = (gone ? fill : inside) - c.centre;
  }
  if (c.kind == SQUARE)
    for (Py_ssize_t i = 0; i < n; i++) out[i] = out[i] * out[i] - c.offset;
  for (Py_ssize_t i = 0; i < n; i++) {
    double steps = rint(out[i] * c.unit);
    to[i] = (int64_t)(steps < c.least ? c.least : steps > c.most ? c.most : steps);
  }
  return (Seen){moved, none};
}

/* Where the cells of some events begin in the grid; whether all are in it. */
static int places(const int64_t *ticks, const int32_t *codes, const int64_t *rows, Py_ssize_t known, int64_t first,
                  Py_ssize_t keys, Py_ssize_t cells, Py_ssize_t width, Py_ssize_t n, Py_ssize_t *out) {
  int fits = 1;
  for (Py_ssize_t i = 0; i < n; i++) {
    uint64_t code = codes ? (uint64_t)codes[i] : 0;
    if (code >= (uint64_t)known) return 0;
    uint64_t row = (uint64_t)rows[code], at = (uint64_t)(ticks[i] - first) * (uint64_t)keys + row;
    fits &= row < (uint64_t)keys && at < (uint64_t)cells;
    out[i] = (Py_ssize_t)(at * (uint64_t)width);
  }
  return fits;
}

/* Adds 1 and the amounts (width - 1, BLOCK) to each event's cell; a sum that is too large turns over, as in numpy. */
WEIR_INLINE void add(uint64_t *grid, const Py_ssize_t *at, const int64_t *amounts, Py_ssize_t n, Py_ssize_t width) {
  for (Py_ssize_t i = 0; i < n; i++) {
    uint64_t *cell = grid + at[i];
    cell[0]++;
    for (Py_ssize_t j = 1; j < width; j++) cell[j] += (uint64_t)amounts[(j - 1) * BLOCK + i];
  }
}

typedef struct {
  const double *columns[MOST_COLUMNS];
  const int64_t *ticks, *rows, *shape;
  const int32_t *codes;
  const Channel *channels;
  Py_ssize_t events, known, width, cells;
  int64_t *counts, *grid;
} Task;

/* shape: first tick, keys. Rows of the grid are a count and a sum a channel. room: (channels, BLOCK). */
static int sum(const Task *t, int64_t *room) {
  Py_ssize_t at[BLOCK], width = t->width;
  uint64_t *grid = (uint64_t *)t->grid;
  for (Py_ssize_t j = 0; j < width - 1; j++)
    for (Py_ssize_t i = 0; t->channels[j].kind == COUNT && i < BLOCK; i++)
      room[j * BLOCK + i] = (int64_t)t->channels[j].most;
  for (Py_ssize_t first = 0; first < t->events; first += BLOCK) {
    Py_ssize_t n = t->events - first < BLOCK ? t->events - first : BLOCK;
    const int32_t *codes = t->codes ? t->codes + first : NULL;
    if (!places(t->ticks + first, codes, t->rows, t->known, t->shape[0], t->shape[1], t->cells, width, n, at)) return 0;
    for (Py_ssize_t j = 0; j < width - 1; j++) {
      Channel c = t->channels[j];
      if (c.kind == COUNT) continue;
      Seen seen = amounts(t->columns[c.column] + first, c, room + j * BLOCK, n);
      t->counts[0] += c.counts_moved ? seen.moved : 0;
      t->counts[1] += c.counts_void ? seen.none : 0;
    }
    if (width == 2) add(grid, at, room, n, 2);
    else if (width == 3) add(grid, at, room, n, 3);
    else add(grid, at, room, n, width);
  }
  return 1;
}

/* Fills in the task; NULL, or what does not fit. */
static const char *prepared(const Py_buffer *v, const Py_buffer *columns, Py_ssize_t count, Task *t) {
  Py_ssize_t channels = v[3].len / (Py_ssize_t)sizeof(Channel);
  t->ticks = v[0].buf, t->codes = v[1].len ? v[1].buf : NULL, t->rows = v[2].buf, t->channels = v[3].buf;
  t->shape = v[4].buf, t->counts = v[5].buf, t->grid = v[6].buf;
  t->events = v[0].len / 8, t->known = v[2].len / 8, t->width = channels + 1;
  t->cells = v[6].len / 8 / t->width;
  int fits = v[0].len == 8 * t->events && (!t->codes || v[1].len == 4 * t->events) && v[2].len == 8 * t->known &&
             v[3].len == channels * (Py_ssize_t)sizeof(Channel) && v[4].len == 16 && v[5].len == 16 &&
             v[6].len == 8 * t->cells * t->width && t->shape[1] > 0;
  for (int i = 0; i < 7; i++) fits = fits && (uintptr_t)v[i].buf % (i == 1 ? 4 : 8) == 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    fits = fits && columns[i].len == 8 * t->events && (uintptr_t)columns[i].buf % 8 == 0;
    t->columns[i] = columns[i].buf;
  }
  for (Py_ssize_t i = 0; fits && i < channels; i++) {
    const Channel *c = t->channels + i;
    fits = c->kind >= COUNT && c->kind <= SQUARE && c->column >= 0 && (c->kind == COUNT || c->column < count) &&
           fabs(c->least) <= 0x1p53 && fabs(c->most) <= 0x1p53;
  }
  return fits ? NULL : "events, channels and the grid do not fit each other.";
}

/* add_events(columns, ticks, codes, rows, channels, shape, counts, grid): events (n,) into cells of the grid.
   codes: (n,) int32 into rows (known,), the key of each; none: rows[0] is the key of all. */
PyObject *weir_add_events(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[7], columns[MOST_COLUMNS];
  PyObject *given = PyTuple_Size(args) == 8 ? PyTuple_GetItem(args, 0) : NULL;
  Py_ssize_t count = given && PyTuple_Check(given) ? PyTuple_Size(given) : -1, held = 0;
  if (count < 0 || count > MOST_COLUMNS) {
    PyErr_SetString(PyExc_TypeError, "expected a tuple of columns, and buffers.");
    return NULL;
  }
  PyObject *rest = PyTuple_GetSlice(args, 1, 8);
  if (!rest) return NULL;
  int taken = weir_take(rest, views, 7, 1u << 5 | 1u << 6);
  Py_DECREF(rest);
  if (!taken) return NULL;
  while (held < count && !PyObject_GetBuffer(PyTuple_GetItem(given, held), &columns[held], PyBUF_SIMPLE)) held++;
  Task t;
  const char *fault = held == count ? prepared(views, columns, count, &t) : NULL;
  int64_t *room = held == count && !fault ? PyMem_Malloc((size_t)t.width * BLOCK * 8) : NULL;
  if (room) {
    int fits;
    Py_BEGIN_ALLOW_THREADS
    fits = sum(&t, room);
    Py_END_ALLOW_THREADS
    PyMem_Free(room);
    if (!fits) fault = "an event is in no cell of the grid.";
  } else if (held == count && !fault) {
    fault = "there is no memory for a block of events.";
  }
  for (Py_ssize_t i = 0; i < held; i++) PyBuffer_Release(&columns[i]);
  if (held < count) {
    for (int i = 0; i < 7; i++) PyBuffer_Release(&views[i]);
    return NULL;
  }
  return weir_give(views, 7, fault);
}
