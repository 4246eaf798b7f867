/* Noise of buffers over a stride: `correlated` of dpcore/continual/buffers.py says what it is. */
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
