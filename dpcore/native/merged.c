/* Cells that came more than once, added up: `sum_by_cell` of transforms/operators/partial_sums.py. */
#include "kernels.h"

#define DIGIT 11 /* bits that a pass sorts by: its counters stay in the first-level cache */
#define ROOM (1 << DIGIT)

/* Sorts words by bits [low, high), `DIGIT` at a time; those below keep their order. Where the result is. */
static const uint64_t *sorted(uint64_t *words, uint64_t *room, Py_ssize_t n, int low, int high) {
  for (; low < high; low += DIGIT) {
    Py_ssize_t at[ROOM] = {0}, sum = 0;
    for (Py_ssize_t i = 0; i < n; i++) at[words[i] >> low & (ROOM - 1)]++;
    for (int digit = 0; digit < ROOM; digit++) {
      Py_ssize_t count = at[digit];
      at[digit] = sum;
      sum += count;
    }
    for (Py_ssize_t i = 0; i < n; i++) room[at[words[i] >> low & (ROOM - 1)]++] = words[i];
    uint64_t *other = words;
    words = room;
    room = other;
  }
  return words;
}

typedef struct {
  const int64_t *counts, *values;
  int64_t *codes, *summed, *sums;
  Py_ssize_t width;
} Cells;

/* Sums turn over as in numpy. Returns how many cells there are. */
static Py_ssize_t add(const Cells *cells, const uint64_t *words, Py_ssize_t n, int bits) {
  const uint64_t place = ((uint64_t)1 << bits) - 1;
  Py_ssize_t width = cells->width, found = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    Py_ssize_t row = (Py_ssize_t)(words[i] & place);
    const int64_t *values = cells->values + row * width;
    if (i && words[i] >> bits == words[i - 1] >> bits) {
      int64_t *sums = cells->sums + (found - 1) * width;
      cells->summed[found - 1] = (int64_t)((uint64_t)cells->summed[found - 1] + (uint64_t)cells->counts[row]);
      for (Py_ssize_t j = 0; j < width; j++) sums[j] = (int64_t)((uint64_t)sums[j] + (uint64_t)values[j]);
    } else {
      cells->codes[found] = (int64_t)(words[i] >> bits);
      cells->summed[found] = cells->counts[row];
      for (Py_ssize_t j = 0; j < width; j++) cells->sums[found * width + j] = values[j];
      found++;
    }
  }
  return found;
}

PyObject *weir_sum_cells(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer all[8]; /* words: code above, place below; room (n,); counts (n,), values (n, D); the same of cells; shape */
  if (!weir_take(args, all, 8, 1 | 2 | 16 | 32 | 64)) return NULL;
  Py_ssize_t n = all[0].len / 8, found = 0;
  const uint64_t *words = all[0].buf;
  const int64_t *shape = all[7].buf; /* bits of a place, and of a word; D */
  int fits = all[7].len == 24 && shape[0] > 0 && shape[0] <= shape[1] && shape[1] <= 64 && shape[0] < 64 && shape[2] >= 0 &&
             all[0].len == 8 * n && all[1].len == 8 * n && all[2].len == 8 * n && all[3].len == 8 * n * shape[2] &&
             all[4].len == 8 * n && all[5].len == 8 * n && all[6].len == all[3].len;
  for (Py_ssize_t i = 0; fits && i < n; i++) fits = (words[i] & (((uint64_t)1 << shape[0]) - 1)) < (uint64_t)n;
  if (fits) {
    Cells cells = {all[2].buf, all[3].buf, all[4].buf, all[5].buf, all[6].buf, (Py_ssize_t)shape[2]};
    Py_BEGIN_ALLOW_THREADS
    found = add(&cells, sorted(all[0].buf, all[1].buf, n, (int)shape[0], (int)shape[1]), n, (int)shape[0]);
    Py_END_ALLOW_THREADS
  }
  PyObject *given = weir_give(all, 8, fits ? NULL : "cells must be as many as each other, and places below that many.");
  Py_XDECREF(given);
  return given ? PyLong_FromSsize_t(found) : NULL;
}
