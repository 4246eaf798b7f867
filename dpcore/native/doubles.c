/* A look at numbers before anybody reads them: transforms/decode/cast.py says what it is for. */
#include "kernels.h"

/* How many are NaN, and of how many adding 0 changes the bits: of -0, and of a NaN that signals. */
WEIR_WIDE static void look(const double *values, Py_ssize_t n, int64_t *missing, int64_t *odd) {
  int64_t nan = 0, changed = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    double v = values[i], sum = v + 0.0;
    uint64_t before, after;
    memcpy(&before, &v, 8);
    memcpy(&after, &sum, 8);
    nan += v != v;
    changed += before != after;
  }
  *missing = nan;
  *odd = changed;
}

PyObject *weir_doubles(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer view;
  if (!weir_take(args, &view, 1, 0)) return NULL;
  int fits = view.len % 8 == 0 && (uintptr_t)view.buf % 8 == 0;
  int64_t missing = 0, odd = 0;
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    look(view.buf, view.len / 8, &missing, &odd);
    Py_END_ALLOW_THREADS
  }
  PyObject *none = weir_give(&view, 1, fits ? NULL : "values must be float64 and aligned.");
  if (!none) return NULL;
  Py_DECREF(none);
  return Py_BuildValue("LL", (long long)missing, (long long)odd);
}
