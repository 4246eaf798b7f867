/* BLAKE2b (RFC 7693) of many short messages: dpcore/noise/streams.py. It has no tables that are read by data. */
#include "kernels.h"

#define BLOCK 128

typedef struct {
  uint64_t h[8], counted;
} state;

static const uint64_t IV[8] = {0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
                               0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u};

static const unsigned char SIGMA[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

static inline uint64_t turned(uint64_t x, int n) { return x >> n | x << (64 - n); }

#define MIX(a, b, c, d, x, y) \
  v[a] += v[b] + (x); \
  v[d] = turned(v[d] ^ v[a], 32); \
  v[c] += v[d]; \
  v[b] = turned(v[b] ^ v[c], 24); \
  v[a] += v[b] + (y); \
  v[d] = turned(v[d] ^ v[a], 16); \
  v[c] += v[d]; \
  v[b] = turned(v[b] ^ v[c], 63);

/* One block, of which ``size`` bytes are the message's; lengths below 2^64. */
static void compress(state *s, const unsigned char *block, uint64_t size, int last) {
  uint64_t m[16], v[16];
  memcpy(m, block, BLOCK);
  s->counted += size;
  memcpy(v, s->h, 64);
  memcpy(v + 8, IV, 64);
  v[12] ^= s->counted;
  if (last) v[14] = ~v[14];
  for (int r = 0; r < 12; r++) {
    const unsigned char *o = SIGMA[r % 10];
    MIX(0, 4, 8, 12, m[o[0]], m[o[1]])
    MIX(1, 5, 9, 13, m[o[2]], m[o[3]])
    MIX(2, 6, 10, 14, m[o[4]], m[o[5]])
    MIX(3, 7, 11, 15, m[o[6]], m[o[7]])
    MIX(0, 5, 10, 15, m[o[8]], m[o[9]])
    MIX(1, 6, 11, 12, m[o[10]], m[o[11]])
    MIX(2, 7, 8, 13, m[o[12]], m[o[13]])
    MIX(3, 4, 9, 14, m[o[14]], m[o[15]])
  }
  for (int i = 0; i < 8; i++) s->h[i] ^= v[i] ^ v[i + 8];
}

/* The rest of a message: whole blocks, and a last one that is filled up with zeros. */
static void finish(state *s, const unsigned char *at, uint64_t size) {
  unsigned char block[BLOCK] = {0};
  for (; size > BLOCK; size -= BLOCK, at += BLOCK) compress(s, at, BLOCK, 0);
  memcpy(block, at, size);
  compress(s, block, size, 1);
}

PyObject *weir_blake2b(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[5]; /* key, person (16,), data, offsets (n + 1,), out (n, size) */
  if (!weir_take(args, views, 5, 16)) return NULL;
  const unsigned char *data = views[2].buf;
  const int64_t *offsets = views[3].buf;
  Py_ssize_t n = views[3].len / 8 - 1, size = n > 0 ? views[4].len / n : 0;
  int fits = views[0].len <= 64 && views[1].len == 16 && views[3].len % 8 == 0 && n >= 0 &&
             (n ? views[4].len == n * size && size >= 1 && size <= 64 : views[4].len == 0);
  for (Py_ssize_t i = 0; fits && i <= n; i++)
    fits = offsets[i] >= (i ? offsets[i - 1] : 0) && offsets[i] <= views[2].len;
  if (fits && n) {
    unsigned char *out = views[4].buf, key[BLOCK] = {0};
    uint64_t person[2];
    state begun = {{0}, 0};
    memcpy(begun.h, IV, 64);
    memcpy(person, views[1].buf, 16);
    begun.h[0] ^= (uint64_t)size | (uint64_t)views[0].len << 8 | 0x01010000u;
    begun.h[6] ^= person[0];
    begun.h[7] ^= person[1];
    memcpy(key, views[0].buf, (size_t)views[0].len);
    state keyed = begun;
    if (views[0].len) compress(&keyed, key, BLOCK, 0);
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n; i++) {
      uint64_t length = (uint64_t)(offsets[i + 1] - offsets[i]);
      state s = keyed;
      if (!length && views[0].len) {
        s = begun;
        compress(&s, key, BLOCK, 1);
      } else {
        finish(&s, data + offsets[i], length);
      }
      memcpy(out + i * size, s.h, (size_t)size);
    }
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 5, fits ? NULL : "a key has 64 bytes at most, person 16, out (n, 1 to 64); offsets do not decrease.");
}
