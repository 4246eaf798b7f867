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
  const int64_t *ticks, *rows, *counts, *values;
  int64_t *own_ticks, *own_rows, *summed, *sums; /* of cells */
  Py_ssize_t n, width;
  int64_t n_rows;
} Cells;

/* Bits of the largest code, tick * n_rows + row; -1 where it and a place have no room in a word, or a code is
   below 0. */
static int bits_of(const Cells *cells, int place) {
  int64_t tick = 0;
  int bits = 1;
  for (Py_ssize_t i = 0; i < cells->n; i++) {
    if (cells->ticks[i] < 0 || cells->rows[i] < 0 || cells->rows[i] >= cells->n_rows) return -1;
    tick = cells->ticks[i] > tick ? cells->ticks[i] : tick;
  }
  if (tick >= INT64_MAX / cells->n_rows - 1) return -1;
  uint64_t largest = ((uint64_t)tick + 1) * (uint64_t)cells->n_rows - 1;
  while (bits < 64 && largest >> bits) bits++;
  return bits + place <= 64 ? bits : -1;
}

/* Sums turn over as in numpy. Returns how many cells there are. */
static Py_ssize_t add(const Cells *cells, const uint64_t *words, int place) {
  const uint64_t places = ((uint64_t)1 << place) - 1;
  Py_ssize_t width = cells->width, found = 0;
  for (Py_ssize_t i = 0; i < cells->n; i++) {
    Py_ssize_t from = (Py_ssize_t)(words[i] & places);
    const int64_t *values = cells->values + from * width;
    if (i && words[i] >> place == words[i - 1] >> place) {
      int64_t *sums = cells->sums + (found - 1) * width;
      cells->summed[found - 1] = (int64_t)((uint64_t)cells->summed[found - 1] + (uint64_t)cells->counts[from]);
      for (Py_ssize_t j = 0; j < width; j++) sums[j] = (int64_t)((uint64_t)sums[j] + (uint64_t)values[j]);
    } else {
      cells->own_ticks[found] = cells->ticks[from];
      cells->own_rows[found] = cells->rows[from];
      cells->summed[found] = cells->counts[from];
      for (Py_ssize_t j = 0; j < width; j++) cells->sums[found * width + j] = values[j];
      found++;
    }
  }
  return found;
}

static Py_ssize_t sum(const Cells *cells, uint64_t *words, uint64_t *room) {
  int place = 1, in_order = 1;
  while (cells->n >> place) place++;
  int bits = bits_of(cells, place);
  if (bits < 0) return -1;
  for (Py_ssize_t i = 0; i < cells->n; i++) {
    words[i] = (uint64_t)(cells->ticks[i] * cells->n_rows + cells->rows[i]) << place | (uint64_t)i;
    in_order &= !i || words[i] > words[i - 1];
  }
  return add(cells, in_order ? words : sorted(words, room, cells->n, place, place + bits), place);
}

PyObject *weir_sum_cells(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer all[11]; /* ticks, rows, counts (n,), values (n, D); the same of cells; words, room (n,); n_rows, D */
  if (!weir_take(args, all, 11, 0x3F0)) return NULL;
  Py_ssize_t n = all[0].len / 8, found = 0;
  const int64_t *shape = all[10].buf;
  int fits = all[10].len == 16 && shape[0] > 0 && shape[1] >= 0 && all[3].len == 8 * n * shape[1] && all[7].len == all[3].len;
  for (int i = 0; i < 10; i++) fits = fits && (i % 4 == 3 || all[i].len == 8 * n);
  if (fits) {
    Cells cells = {all[0].buf, all[1].buf, all[2].buf, all[3].buf, all[4].buf, all[5].buf, all[6].buf, all[7].buf,
                   n, (Py_ssize_t)shape[1], shape[0]};
    Py_BEGIN_ALLOW_THREADS
    found = sum(&cells, all[8].buf, all[9].buf);
    Py_END_ALLOW_THREADS
  }
  PyObject *given = weir_give(all, 11, fits ? NULL : "cells must be as many as each other, and rows be 1 or more.");
  Py_XDECREF(given);
  return given ? PyLong_FromSsize_t(found) : NULL;
}
