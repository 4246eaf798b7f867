/* Noise of buffers over a stride: `correlated` of dpcore/continual/blt.py says what it is. */
#include "kernels.h"

/* One tick: total = unit + sum_j omega_j u_j in the order of j, then u_j = u_j theta_j + unit.
   The columns are keys and coordinates; a buffer's numbers of all columns lie side by side. */
WEIR_WIDE static void tick(const double *unit, double *total, double *buffers, const double *theta,
                           const double *omega, Py_ssize_t poles, Py_ssize_t columns) {
  for (Py_ssize_t i = 0; i < columns; i++) total[i] = unit[i];
  for (Py_ssize_t j = 0; j < poles; j++) {
    double *u = buffers + j * columns, t = theta[j], o = omega[j];
    for (Py_ssize_t i = 0; i < columns; i++) {
      total[i] += u[i] * o;
      u[i] = u[i] * t + unit[i];
    }
  }
}

PyObject *weir_correlate(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer units, noise, buffers, theta, omega;
  if (!PyArg_ParseTuple(args, "y*w*w*y*y*", &units, &noise, &buffers, &theta, &omega)) return NULL;
  Py_ssize_t poles = theta.len / 8, columns = poles ? buffers.len / 8 / poles : 0;
  int fits = units.len == noise.len && theta.len == omega.len &&
             buffers.len == 8 * poles * columns &&
             (columns ? units.len % (8 * columns) == 0 : units.len == 0);
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    const double *unit = units.buf;
    double *total = noise.buf;
    Py_ssize_t ticks = columns ? units.len / (8 * columns) : 0;
    for (Py_ssize_t n = 0; n < ticks; n++)
      tick(unit + n * columns, total + n * columns, buffers.buf, theta.buf, omega.buf, poles, columns);
    Py_END_ALLOW_THREADS
  } else {
    PyErr_SetString(PyExc_ValueError,
                    "units and noise must be (n, columns), buffers (poles, columns), theta and omega (poles,).");
  }
  PyBuffer_Release(&units);
  PyBuffer_Release(&noise);
  PyBuffer_Release(&buffers);
  PyBuffer_Release(&theta);
  PyBuffer_Release(&omega);
  if (!fits) return NULL;
  Py_RETURN_NONE;
}

/* `times` of dpcore/continual/exact.py: (value number + 2^52) >> 53, by halves of 32 bits. */
WEIR_INLINE int64_t times(int64_t value, int64_t number) {
  int64_t high = number >> 32, low = number & 0xFFFFFFFF;
  int64_t above = value >> 32, below = value & 0xFFFFFFFF;
  int64_t carry = (int64_t)((uint64_t)below * (uint64_t)low >> 32);
  int64_t middle = (int64_t)((uint64_t)(above * low) + (uint64_t)(below * high) + (uint64_t)carry);
  return (int64_t)((uint64_t)above * (uint64_t)high * 2048 + (uint64_t)((middle + (1 << 20)) >> 21));
}

#define ONE ((int64_t)1 << 53)

/* One tick of `filtered_units`: buffers are (poles + 1, columns), the last row is carried. */
WEIR_WIDE static void exact_tick(int64_t *own, int64_t *buffers, int64_t *scratch, const int64_t *theta,
                                 const int64_t *omega, const int64_t *curve, Py_ssize_t poles,
                                 Py_ssize_t columns, int bits) {
  int64_t inverse = curve[0], scale = curve[1], step = curve[2], half = (int64_t)1 << (bits - 1);
  int64_t *come = scratch, *total = scratch + columns, *carried = buffers + poles * columns;
  int flat = inverse == ONE && scale == ONE && !step; /* then `times` changes nothing, and adds nothing */
  for (Py_ssize_t i = 0; i < columns; i++) {
    come[i] = (int64_t)((uint64_t)own[i] << bits);
    total[i] = 0;
  }
  if (!flat)
    for (Py_ssize_t i = 0; i < columns; i++) come[i] = times(come[i], inverse);
  for (Py_ssize_t j = 0; j < poles; j++) {
    int64_t *u = buffers + j * columns, t = theta[j], o = omega[j];
    for (Py_ssize_t i = 0; i < columns; i++) {
      total[i] += times(u[i], o);
      u[i] = times(u[i], t) + come[i];
    }
  }
  if (flat)
    for (Py_ssize_t i = 0; i < columns; i++) own[i] += (total[i] + carried[i] + half) >> bits;
  else
    for (Py_ssize_t i = 0; i < columns; i++) {
      own[i] += (times(total[i], scale) + carried[i] + half) >> bits;
      carried[i] += times(come[i] + total[i], step);
    }
}

PyObject *weir_correlate_exact(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer all[5]; /* units, buffers, numbers, curves, bits */
  if (!weir_take(args, all, 5, 3)) return NULL;
  Py_ssize_t poles = all[2].len / 16, columns = all[1].len / 8 / (poles + 1);
  Py_ssize_t ticks = columns ? all[0].len / (8 * columns) : 0;
  int fits = all[1].len == 8 * (poles + 1) * columns && all[2].len == 16 * poles &&
             all[0].len == 8 * ticks * columns && all[3].len == 24 * ticks && all[4].len == 8;
  int64_t bits = fits ? *(const int64_t *)all[4].buf : 0;
  fits = fits && bits > 0 && bits < 62;
  int64_t *scratch = fits ? PyMem_Malloc(16 * (size_t)columns + 16) : NULL; /* two rows */
  if (fits && scratch) {
    Py_BEGIN_ALLOW_THREADS
    int64_t *units = all[0].buf;
    const int64_t *theta = all[2].buf, *curves = all[3].buf;
    for (Py_ssize_t n = 0; n < ticks; n++)
      exact_tick(units + n * columns, all[1].buf, scratch, theta, theta + poles, curves + 3 * n, poles,
                 columns, (int)bits);
    Py_END_ALLOW_THREADS
    PyMem_Free(scratch);
  } else if (fits) {
    fits = 0;
  }
  return weir_give(all, 5,
                   fits ? NULL
                        : "units must be (n, columns), buffers (poles + 1, columns), numbers (2, poles), "
                          "curves (n, 3), bits one number.");
}
