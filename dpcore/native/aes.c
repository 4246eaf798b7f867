/* AES-128 over blocks, by the processor's own instructions: no tables, no timing that follows data.
   Where it has none the module says so, and dpcore/noise/streams.py asks a library instead. */
#include "kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

#define LANES 8 /* in flight at once: an instruction's latency times how many begin together */

int weir_aes_ready(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && c >> 25 & 1;
}

static int wide_ready(void) {
  unsigned a, b, c, d;
  return __builtin_cpu_supports("avx512f") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && c >> 9 & 1;
}

__attribute__((target("aes"))) static inline __m128i next_round(__m128i key, __m128i made) {
  made = _mm_shuffle_epi32(made, 0xff);
  key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  return _mm_xor_si128(key, made);
}

__attribute__((target("aes"))) static void expand(const void *key, weir_schedule *out) {
  __m128i *to = (__m128i *)out->rounds, k = _mm_loadu_si128(key);
  _mm_storeu_si128(to++, k);
#define ROUND(constant) \
  k = next_round(k, _mm_aeskeygenassist_si128(k, constant)); \
  _mm_storeu_si128(to++, k);
  ROUND(0x01) ROUND(0x02) ROUND(0x04) ROUND(0x08) ROUND(0x10)
  ROUND(0x20) ROUND(0x40) ROUND(0x80) ROUND(0x1b) ROUND(0x36)
#undef ROUND
}

__attribute__((target("aes"))) static void narrow(const weir_schedule *key, const uint64_t *source,
                                                  uint64_t *out, Py_ssize_t blocks) {
  __m128i k[11], x[LANES];
  for (int r = 0; r < 11; r++) k[r] = _mm_loadu_si128((const __m128i *)key->rounds + r);
  const __m128i *from = (const __m128i *)source;
  __m128i *to = (__m128i *)out;
  for (; blocks >= LANES; blocks -= LANES, from += LANES, to += LANES) {
    for (int i = 0; i < LANES; i++) x[i] = _mm_xor_si128(_mm_loadu_si128(from + i), k[0]);
    for (int r = 1; r < 10; r++)
      for (int i = 0; i < LANES; i++) x[i] = _mm_aesenc_si128(x[i], k[r]);
    for (int i = 0; i < LANES; i++) _mm_storeu_si128(to + i, _mm_aesenclast_si128(x[i], k[10]));
  }
  for (; blocks > 0; blocks--, from++, to++) {
    __m128i y = _mm_xor_si128(_mm_loadu_si128(from), k[0]);
    for (int r = 1; r < 10; r++) y = _mm_aesenc_si128(y, k[r]);
    _mm_storeu_si128(to, _mm_aesenclast_si128(y, k[10]));
  }
}

/* Four blocks a register; returns how many it did. */
__attribute__((target("avx512f,vaes"))) static Py_ssize_t wide(const weir_schedule *key, const uint64_t *source,
                                                               uint64_t *out, Py_ssize_t blocks) {
  __m512i k[11], x[LANES];
  Py_ssize_t done = 0;
  for (int r = 0; r < 11; r++)
    k[r] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)key->rounds + r));
  for (; blocks - done >= 4 * LANES; done += 4 * LANES) {
    const uint64_t *from = source + 2 * done;
    uint64_t *to = out + 2 * done;
    for (int i = 0; i < LANES; i++) x[i] = _mm512_xor_si512(_mm512_loadu_si512(from + 8 * i), k[0]);
    for (int r = 1; r < 10; r++)
      for (int i = 0; i < LANES; i++) x[i] = _mm512_aesenc_epi128(x[i], k[r]);
    for (int i = 0; i < LANES; i++) _mm512_storeu_si512(to + 8 * i, _mm512_aesenclast_epi128(x[i], k[10]));
  }
  return done;
}

void weir_aes_blocks(const weir_schedule *key, const uint64_t *source, uint64_t *out, Py_ssize_t blocks) {
  static int can = -1;
  if (can < 0) can = wide_ready();
  Py_ssize_t done = can ? wide(key, source, out, blocks) : 0;
  narrow(key, source + 2 * done, out + 2 * done, blocks - done);
}

#else

int weir_aes_ready(void) { return 0; }
static void expand(const void *key, weir_schedule *out) {
  (void)key;
  (void)out;
}
void weir_aes_blocks(const weir_schedule *key, const uint64_t *source, uint64_t *out, Py_ssize_t blocks) {
  (void)key;
  (void)source;
  (void)out;
  (void)blocks;
}

#endif

/* False where the key is none, or the processor cannot. */
int weir_aes_schedule(const Py_buffer *key, weir_schedule *out) {
  if (key->len != 16 || !weir_aes_ready()) return 0;
  expand(key->buf, out);
  return 1;
}

PyObject *weir_aes(PyObject *self, PyObject *args) {
  (void)self;
  (void)args;
  return PyBool_FromLong(weir_aes_ready());
}

PyObject *weir_encrypt(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[3];
  weir_schedule key;
  if (!weir_take(args, views, 3, 4)) return NULL;
  int fits = weir_aes_schedule(&views[0], &key) && views[1].len == views[2].len && views[1].len % 16 == 0;
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    weir_aes_blocks(&key, views[1].buf, views[2].buf, views[1].len / 16);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 3, fits ? NULL : "a key has 16 bytes, source and out as many blocks as each other.");
}
