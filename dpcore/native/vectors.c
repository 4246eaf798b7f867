/* Vectors of density exp(-||x||_2): dpcore/noise/gaussian.py says how they are made. */
#include "kernels.h"

/* As sum_last of gaussian.py: halves are added, so that the order follows the width alone. */
static double sum(double *values, Py_ssize_t width) {
  while (width > 1) {
    Py_ssize_t half = width / 2;
    for (Py_ssize_t i = 0; i < half; i++) values[i] += values[width - half + i];
    width -= half;
  }
  return values[0];
}

#define SIZE 1024 /* numbers worked on together, unless one vector is longer */

/* d normals and d exponentials, used up -> a vector of d */
static void vector(double *normals, double *sizes, double *out, Py_ssize_t d) {
  double radius = sum(sizes, d);
  for (Py_ssize_t i = 0; i < d; i++) {
    out[i] = normals[i];
    normals[i] = normals[i] * normals[i];
  }
  radius = radius / sqrt(sum(normals, d));
  for (Py_ssize_t i = 0; i < d; i++) out[i] = out[i] * radius;
}

static void vectors(double *words, double *out, Py_ssize_t rows, Py_ssize_t d) {
  double normals[SIZE], sizes[SIZE];
  Py_ssize_t most = SIZE / d;
  for (Py_ssize_t first = 0; first < rows; first += most ? most : 1) {
    if (!most) {
      double *row = words + 2 * d * first;
      weir_normals(row, d);
      weir_exponentials(row + d, d);
      vector(row, row + d, out + d * first, d);
      continue;
    }
    Py_ssize_t n = rows - first < most ? rows - first : most;
    for (Py_ssize_t r = 0; r < n; r++) {
      memcpy(normals + d * r, words + 2 * d * (first + r), 8 * (size_t)d);
      memcpy(sizes + d * r, words + 2 * d * (first + r) + d, 8 * (size_t)d);
    }
    weir_normals(normals, n * d);
    weir_exponentials(sizes, n * d);
    for (Py_ssize_t r = 0; r < n; r++) vector(normals + d * r, sizes + d * r, out + d * (first + r), d);
  }
}

PyObject *weir_vectors(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[2]; /* words (n, 2 d), used up; out (n, d) */
  Py_buffer *words = &views[0], *out = &views[1];
  Py_ssize_t d;
  PyObject *pair = PyTuple_GetSlice(args, 0, 2);
  if (!pair) return NULL;
  d = PyTuple_Size(args) == 3 ? PyLong_AsSsize_t(PyTuple_GetItem(args, 2)) : -1;
  if (PyErr_Occurred() || !weir_take(pair, views, 2, 3)) {
    Py_DECREF(pair);
    return NULL;
  }
  Py_DECREF(pair);
  int fits = d > 0 && words->len == 2 * out->len && out->len % (8 * d) == 0;
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    vectors(words->buf, out->buf, out->len / 8 / d, d);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 2, fits ? NULL : "words must be (n, 2 d), out (n, d).");
}
