/* Logarithms, and what is made of them: dpcore/noise/gaussian.py and selection.py say what they are. */
#include "kernels.h"
#include "logarithm.h"

#define SIZE 256

/* 63 bits a word; near 0 the logarithm of 1 - u itself, so that no digit is lost. */
WEIR_INLINE double exponential_of(uint64_t word) {
  int64_t j = (int64_t)(word >> 1);
  double u = ((double)j + 0.5) * 0x1p-63;
  double rest = ((double)(INT64_MAX - j) + 0.5) * 0x1p-63;
  double near = -log_near_one(u < 0.25 ? -u : 0.0), far = -exact_log(rest);
  return u < 0.25 ? near : far;
}

WEIR_WIDE static void exponentials(const uint64_t *words, double *out, int n) {
  for (int i = 0; i < n; i++) out[i] = exponential_of(words[i]);
}

WEIR_WIDE static void gumbels(const uint64_t *words, double *out, int n) {
  for (int i = 0; i < n; i++) out[i] = -exact_log(exponential_of(words[i]));
}

WEIR_WIDE static void laplaces(const uint64_t *words, double *out, int n) {
  for (int i = 0; i < n; i++) {
    double size = exponential_of(words[i]);
    out[i] = words[i] & 1 ? -size : size;
  }
}

WEIR_WIDE static void logarithms(const double *values, double *out, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; i++) out[i] = exact_log(values[i]);
}

static void in_place(double *values, Py_ssize_t n, void (*each)(const uint64_t *, double *, int)) {
  uint64_t words[SIZE];
  for (Py_ssize_t start = 0; start < n; start += SIZE) {
    int size = n - start < SIZE ? (int)(n - start) : SIZE;
    memcpy(words, values + start, 8 * (size_t)size);
    each(words, values + start, size);
  }
}

void weir_exponentials(void *values, Py_ssize_t n) { in_place(values, n, exponentials); }
void weir_gumbels(void *values, Py_ssize_t n) { in_place(values, n, gumbels); }
void weir_laplaces(void *values, Py_ssize_t n) { in_place(values, n, laplaces); }

PyObject *weir_exponential(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[2];
  if (!weir_take(args, views, 2, 2)) return NULL;
  int fits = views[0].len == views[1].len && views[0].len % 8 == 0;
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    Py_ssize_t n = views[0].len / 8;
    const uint64_t *words = views[0].buf;
    double *out = views[1].buf;
    for (Py_ssize_t start = 0; start < n; start += SIZE)
      exponentials(words + start, out + start, n - start < SIZE ? (int)(n - start) : SIZE);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 2, fits ? NULL : "words and out must be as long as each other.");
}

PyObject *weir_logarithm(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[2];
  if (!weir_take(args, views, 2, 2)) return NULL;
  int fits = views[0].len == views[1].len && views[0].len % 8 == 0;
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    logarithms(views[0].buf, views[1].buf, views[0].len / 8);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 2, fits ? NULL : "values and out must be as long as each other.");
}
