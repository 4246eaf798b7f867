/* Sums of rows so far: `accumulate` of dpcore/arrays.py and `running_sums` of dpcore/leaves/lattice.py. */
#include "kernels.h"

#define TILE 512 /* columns at a time: what is carried from row to row stays in the first-level cache */
#define LIMB 62

enum { SUM, XOR };

WEIR_WIDE static void down(uint64_t *values, Py_ssize_t rows, Py_ssize_t columns, int kind) {
  for (Py_ssize_t first = 0; first < columns; first += TILE) {
    Py_ssize_t n = columns - first < TILE ? columns - first : TILE;
    for (Py_ssize_t t = 1; t < rows; t++) {
      uint64_t *row = values + t * columns + first;
      const uint64_t *before = row - columns;
      if (kind == XOR)
        for (Py_ssize_t i = 0; i < n; i++) row[i] ^= before[i];
      else
        for (Py_ssize_t i = 0; i < n; i++) row[i] += before[i];
    }
  }
}

PyObject *weir_accumulate(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer all[2]; /* values (rows, columns), shape: rows, kind */
  if (!weir_take(args, all, 2, 1)) return NULL;
  const int64_t *shape = all[1].buf;
  int fits = all[1].len == 16 && shape[0] > 0 && all[0].len % (8 * shape[0]) == 0 && (shape[1] == SUM || shape[1] == XOR);
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    down(all[0].buf, shape[0], all[0].len / 8 / shape[0], (int)shape[1]);
    Py_END_ALLOW_THREADS
  }
  return weir_give(all, 2, fits ? NULL : "values must be (rows, columns), shape their rows and a kind.");
}

typedef struct {
  int64_t *total;
  const int64_t *leaves, *drawn;
  int64_t *noisy;
  double *out;
  Py_ssize_t rows, columns;
} Task;

/* Some columns, row by row. Sums turn over as in numpy. */
WEIR_WIDE static void run(const Task *task, Py_ssize_t first, Py_ssize_t n) {
  const uint64_t mask = ((uint64_t)1 << LIMB) - 1;
  int64_t low[TILE], high[TILE], *total = task->total + 2 * first;
  for (Py_ssize_t i = 0; i < n; i++) low[i] = total[2 * i], high[i] = total[2 * i + 1];
  for (Py_ssize_t t = 0; t < task->rows; t++) {
    Py_ssize_t at = t * task->columns + first;
    const int64_t *leaf = task->leaves + at, *drawn = task->drawn + at;
    for (Py_ssize_t i = 0; i < n; i++) {
      int64_t sum = (int64_t)((uint64_t)low[i] + (uint64_t)leaf[i]);
      high[i] += sum >> LIMB;
      low[i] = (int64_t)((uint64_t)sum & mask);
    }
    if (task->noisy) {
      int64_t *noisy = task->noisy + at;
      for (Py_ssize_t i = 0; i < n; i++)
        noisy[i] = (int64_t)(((uint64_t)high[i] << LIMB) + (uint64_t)low[i] + (uint64_t)drawn[i]);
    }
    if (task->out) {
      double *out = task->out + at;
      for (Py_ssize_t i = 0; i < n; i++) { /* centred: -1 is (2^62 - 1, -1), and 2^62 - 1 is no double */
        int64_t sum = (int64_t)((uint64_t)low[i] + (uint64_t)drawn[i]);
        int64_t below = (int64_t)((uint64_t)sum & mask), carry = below >> (LIMB - 1);
        double above = (double)(high[i] + (sum >> LIMB) + carry) * 0x1p62;
        out[i] = above + (double)(below - (int64_t)((uint64_t)carry << LIMB));
      }
    }
  }
  for (Py_ssize_t i = 0; i < n; i++) total[2 * i] = low[i], total[2 * i + 1] = high[i];
}

PyObject *weir_running(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer all[5]; /* total (columns, 2), leaves, drawn (rows, columns), noisy and out: as these, or empty */
  if (!weir_take(args, all, 5, 1 | 8 | 16)) return NULL;
  Task task = {all[0].buf, all[1].buf, all[2].buf, all[3].len ? all[3].buf : NULL, all[4].len ? all[4].buf : NULL,
               0, all[0].len / 16};
  int fits = all[0].len == 16 * task.columns && all[2].len == all[1].len &&
             (task.columns ? all[1].len % (8 * task.columns) == 0 : all[1].len == 0) &&
             (!task.noisy || all[3].len == all[1].len) && (!task.out || all[4].len == all[1].len);
  if (fits && task.columns) {
    task.rows = all[1].len / 8 / task.columns;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t first = 0; first < task.columns; first += TILE)
      run(&task, first, task.columns - first < TILE ? task.columns - first : TILE);
    Py_END_ALLOW_THREADS
  }
  return weir_give(all, 5, fits ? NULL : "total must be (columns, 2), leaves and drawn (rows, columns), noisy and out too, or empty.");
}
