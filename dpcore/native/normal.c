/* Standard normals from random words: dpcore/noise/gaussian.py says what they are. */
#include "kernels.h"
#include "logarithm.h"

#define SIZE 256 /* samples at once: everything stays in the first-level cache */

static const double CENTRE_UP[8] = {
    2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
    1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0};
static const double CENTRE_DOWN[8] = {
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
    5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0};
static const double MIDDLE_UP[8] = {
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
    3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0};
static const double MIDDLE_DOWN[8] = {
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0};
static const double FAR_UP[8] = {
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
    2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0};
static const double FAR_DOWN[8] = {
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
    1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0};

WEIR_INLINE double horner(const double *c, double x) {
  double out = x * c[0];
  for (int k = 1; k < 7; k++) out = (out + c[k]) * x;
  return out + c[7];
}

WEIR_WIDE static void centre(const int64_t *v, double *out, double *outside, int n) {
  for (int i = 0; i < n; i++) {
    double q = (double)(v[i] | 1) * 0x1p-64;
    double r = 0.180625 - q * q;
    out[i] = horner(CENTRE_UP, r) / horner(CENTRE_DOWN, r) * q;
    outside[i] = r;
  }
}

/* The 15 % outside 0.075 .. 0.925, gathered so that this loop is as straight as the other. */
WEIR_WIDE static void tails(const int64_t *v, double *out, double *roots, int n) {
  for (int i = 0; i < n; i++) {
    int64_t sign = v[i] >> 63;
    int64_t left = (INT64_MAX - (v[i] ^ sign)) + (1 + sign);
    double root = sqrt(-exact_log((double)left * 0x1p-64)), x = root - 1.6;
    out[i] = horner(MIDDLE_UP, x) / horner(MIDDLE_DOWN, x) * (1.0 + 2.0 * (double)sign);
    roots[i] = root;
  }
}

/* One sample in 10^11. */
static double far(int64_t v, double root) {
  double x = root - 5.0;
  return horner(FAR_UP, x) / horner(FAR_DOWN, x) * (1.0 + 2.0 * (double)(v >> 63));
}

static void normals(const int64_t *v, double *out, int n) {
  double outside[SIZE], found[SIZE], roots[SIZE];
  int64_t odd[SIZE];
  int at[SIZE], count = 0;
  centre(v, out, outside, n);
  for (int i = 0; i < n; i++) {
    at[count] = i;
    odd[count] = v[i] | 1;
    count += outside[i] < 0.0;
  }
  tails(odd, found, roots, count);
  for (int i = 0; i < count; i++) out[at[i]] = roots[i] > 5.0 ? far(odd[i], roots[i]) : found[i];
}

void weir_normals(void *values, Py_ssize_t n) {
  int64_t words[SIZE];
  double *out = values;
  for (Py_ssize_t start = 0; start < n; start += SIZE) {
    int size = n - start < SIZE ? (int)(n - start) : SIZE;
    memcpy(words, out + start, 8 * (size_t)size);
    normals(words, out + start, size);
  }
}

PyObject *weir_normal(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer words, out;
  if (!PyArg_ParseTuple(args, "y*w*", &words, &out)) return NULL;
  if (words.len != out.len || words.len % 8) {
    PyBuffer_Release(&words);
    PyBuffer_Release(&out);
    PyErr_SetString(PyExc_ValueError, "words and out must be as long as each other.");
    return NULL;
  }
  Py_ssize_t n = words.len / 8;
  const int64_t *v = words.buf;
  double *to = out.buf;
  Py_BEGIN_ALLOW_THREADS
  for (Py_ssize_t start = 0; start < n; start += SIZE)
    normals(v + start, to + start, n - start < SIZE ? (int)(n - start) : SIZE);
  Py_END_ALLOW_THREADS
  PyBuffer_Release(&words);
  PyBuffer_Release(&out);
  Py_RETURN_NONE;
}
