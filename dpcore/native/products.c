/* Sums of products of the columns of a block: dpcore/models/moments.py says what they are of.

   The numbers are whole, and so few rows are added up at a time that every partial sum is a whole
   number up to 2^53. So nothing is ever rounded, and neither the order nor a fused operation shows. */
#include "kernels.h"
#include "rows.h"

/* Column i + r or j + c of a tile; beyond the last column the last one again, which nobody reads. */
#define TILE(ROWS, COLUMNS) \
  const double *a[ROWS], *b[COLUMNS]; \
  for (Py_ssize_t r = 0; r < (ROWS); r++) a[r] = table + (i + r < width ? i + r : width - 1) * WEIR_STRIDE; \
  for (Py_ssize_t c = 0; c < (COLUMNS); c++) b[c] = table + (j + c < width ? j + c : width - 1) * WEIR_STRIDE;

/* Sums of a tile, from the diagonal on. */
#define KEEP(ROWS, COLUMNS, SUM) \
  for (Py_ssize_t r = 0; r < (ROWS); r++) \
    for (Py_ssize_t c = 0; c < (COLUMNS); c++) { \
      double found = SUM(s[r][c]); \
      if (i + r <= j + c && j + c < width) out[(i + r) * width + j + c] = found; \
    }

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

__attribute__((target("avx512f"))) static void eight(const double *table, Py_ssize_t n, Py_ssize_t width,
                                                     double *out) {
  for (Py_ssize_t i = 0; i < width; i += 4)
    for (Py_ssize_t j = i; j < width; j += 4) {
      TILE(4, 4)
      __m512d s[4][4];
      for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) s[r][c] = _mm512_setzero_pd();
      for (Py_ssize_t k = 0; k < n; k += 8) {
        __m512d y[4];
        for (int c = 0; c < 4; c++) y[c] = _mm512_load_pd(b[c] + k);
        for (int r = 0; r < 4; r++) {
          __m512d x = _mm512_load_pd(a[r] + k);
          for (int c = 0; c < 4; c++) s[r][c] = _mm512_fmadd_pd(x, y[c], s[r][c]);
        }
      }
      KEEP(4, 4, _mm512_reduce_add_pd)
    }
}

__attribute__((target("avx2,fma"))) static inline double sum_of_four(__m256d v) {
  __m128d two = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

__attribute__((target("avx2,fma"))) static void four(const double *table, Py_ssize_t n, Py_ssize_t width,
                                                     double *out) {
  for (Py_ssize_t i = 0; i < width; i += 4)
    for (Py_ssize_t j = i; j < width; j += 2) {
      TILE(4, 2)
      __m256d s[4][2];
      for (int r = 0; r < 4; r++)
        for (int c = 0; c < 2; c++) s[r][c] = _mm256_setzero_pd();
      for (Py_ssize_t k = 0; k < n; k += 4) {
        __m256d y[2];
        for (int c = 0; c < 2; c++) y[c] = _mm256_load_pd(b[c] + k);
        for (int r = 0; r < 4; r++) {
          __m256d x = _mm256_load_pd(a[r] + k);
          for (int c = 0; c < 2; c++) s[r][c] = _mm256_fmadd_pd(x, y[c], s[r][c]);
        }
      }
      KEEP(4, 2, sum_of_four)
    }
}

static int lanes(void) {
  if (__builtin_cpu_supports("avx512f")) return 8;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 4 : 2;
}
#else
static void eight(const double *table, Py_ssize_t n, Py_ssize_t width, double *out) {
  (void)table, (void)n, (void)width, (void)out;
}
#define four eight
static int lanes(void) { return 2; }
#endif

/* For any processor. */
#ifdef __GNUC__
typedef double pair __attribute__((vector_size(16), may_alias));
#define SUM_OF_TWO(v) ((v)[0] + (v)[1])
static void two(const double *table, Py_ssize_t n, Py_ssize_t width, double *out) {
  for (Py_ssize_t i = 0; i < width; i += 4)
    for (Py_ssize_t j = i; j < width; j += 2) {
      TILE(4, 2)
      pair s[4][2];
      memset(s, 0, sizeof s);
      for (Py_ssize_t k = 0; k < n; k += 2)
        for (int r = 0; r < 4; r++)
          for (int c = 0; c < 2; c++) s[r][c] += *(const pair *)(a[r] + k) * *(const pair *)(b[c] + k);
      KEEP(4, 2, SUM_OF_TWO)
    }
}
#else
static void two(const double *table, Py_ssize_t n, Py_ssize_t width, double *out) {
  for (Py_ssize_t i = 0; i < width; i++)
    for (Py_ssize_t j = i; j < width; j++) {
      TILE(1, 1)
      double s[1][1] = {{0.0}};
      for (Py_ssize_t k = 0; k < n; k++) s[0][0] += a[0][k] * b[0][k];
      KEEP(1, 1, )
    }
}
#endif

void weir_products(const double *table, Py_ssize_t n, Py_ssize_t width, int64_t most, double *out) {
  static int can = 0;
  if (!can) can = lanes();
  int64_t use = most < can ? most : can;
  (use >= 8 ? eight : use >= 4 ? four : two)(table, n, width, out);
}
