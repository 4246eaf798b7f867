/* Keyed streams of random words, and what is drawn of them: `Streams` of dpcore/noise/streams.py. */
#include "kernels.h"

#define PAIRS 128 /* seeds made at once */
#define BLOCKS 256 /* blocks of streams made at once */
#define WORDS 2048 /* turned to numbers at once: 16 kB, which stay in the first-level cache */

int weir_streams_of(const Py_buffer *views, weir_streams *out) {
  out->heads = views[2].buf;
  out->labels = views[3].buf;
  out->digests = views[4].buf;
  out->keys = views[2].len / 16;
  out->pairs = out->keys * (views[3].len / 16);
  return weir_aes_schedule(&views[0], &out->mac) && weir_aes_schedule(&views[1], &out->stream) &&
         views[2].len % 16 == 0 && views[3].len % 16 == 0 && views[4].len == 16 * out->pairs;
}

/* The CBC-MAC of each pair; count <= PAIRS. */
void weir_seeds(const weir_streams *streams, Py_ssize_t first, Py_ssize_t count, uint64_t *seeds) {
  uint64_t framed[2 * PAIRS];
  Py_ssize_t key = first % streams->keys, row = first / streams->keys, done = 0;
  while (done < count) {
    Py_ssize_t n = streams->keys - key < count - done ? streams->keys - key : count - done;
    const uint64_t *heads = streams->heads + 2 * key, a = streams->labels[2 * row], b = streams->labels[2 * row + 1];
    for (Py_ssize_t i = 0; i < n; i++) {
      framed[2 * (done + i)] = heads[2 * i] ^ a;
      framed[2 * (done + i) + 1] = heads[2 * i + 1] ^ b;
    }
    done += n;
    key = 0;
    row++;
  }
  weir_aes_blocks(&streams->mac, framed, seeds, count);
  const uint64_t *digests = streams->digests + 2 * first;
  for (Py_ssize_t i = 0; i < 2 * count; i++) framed[i] = seeds[i] ^ digests[i];
  weir_aes_blocks(&streams->mac, framed, seeds, count);
}

/* A word of each stream. */
void weir_column(const weir_streams *streams, uint64_t word, uint64_t *out) {
  uint64_t seeds[2 * PAIRS], made[2 * PAIRS];
  for (Py_ssize_t first = 0; first < streams->pairs; first += PAIRS) {
    Py_ssize_t n = streams->pairs - first < PAIRS ? streams->pairs - first : PAIRS;
    weir_seeds(streams, first, n, seeds);
    for (Py_ssize_t i = 0; i < n; i++) seeds[2 * i] ^= word / 2;
    weir_aes_blocks(&streams->stream, seeds, made, n);
    for (Py_ssize_t i = 0; i < n; i++) out[first + i] = made[2 * i + word % 2];
  }
}

/* The first words of one stream. */
static void long_stream(const weir_streams *streams, const uint64_t *seed, uint64_t *out, Py_ssize_t words) {
  uint64_t source[2 * BLOCKS], made[2 * BLOCKS];
  for (Py_ssize_t first = 0; 2 * first < words; first += BLOCKS) {
    Py_ssize_t left = words - 2 * first, n = left < 2 * BLOCKS ? (left + 1) / 2 : BLOCKS;
    for (Py_ssize_t j = 0; j < n; j++) {
      source[2 * j] = seed[0] ^ (uint64_t)(first + j);
      source[2 * j + 1] = seed[1];
    }
    weir_aes_blocks(&streams->stream, source, made, n);
    memcpy(out + 2 * first, made, 8 * (size_t)(left < 2 * n ? left : 2 * n));
  }
}

/* The first words of streams that are short: several together. */
static void short_streams(const weir_streams *streams, const uint64_t *seeds, Py_ssize_t count, uint64_t *out,
                          Py_ssize_t words) {
  uint64_t source[2 * BLOCKS], made[2 * BLOCKS];
  Py_ssize_t blocks = (words + 1) / 2, most = BLOCKS / blocks;
  for (Py_ssize_t first = 0; first < count; first += most) {
    Py_ssize_t n = count - first < most ? count - first : most;
    uint64_t *to = source;
    for (Py_ssize_t i = first; i < first + n; i++)
      for (Py_ssize_t j = 0; j < blocks; j++, to += 2) {
        to[0] = seeds[2 * i] ^ (uint64_t)j;
        to[1] = seeds[2 * i + 1];
      }
    if (words == 2 * blocks) {
      weir_aes_blocks(&streams->stream, source, out + first * words, n * blocks);
    } else {
      weir_aes_blocks(&streams->stream, source, made, n * blocks);
      for (Py_ssize_t i = 0; i < n; i++)
        for (Py_ssize_t w = 0; w < words; w++) out[(first + i) * words + w] = made[2 * i * blocks + w];
    }
  }
}

static void nothing(void *values, Py_ssize_t n) {
  (void)values;
  (void)n;
}

static void (*const KINDS[])(void *, Py_ssize_t) = {nothing, weir_normals, weir_exponentials, weir_gumbels,
                                                   weir_laplaces};

static void draw(const weir_streams *streams, uint64_t *out, Py_ssize_t words, void (*kind)(void *, Py_ssize_t)) {
  uint64_t seeds[2 * PAIRS];
  Py_ssize_t most = words > WORDS / PAIRS ? WORDS / words : PAIRS;
  if (!most) most = 1;
  for (Py_ssize_t first = 0; first < streams->pairs; first += most) {
    Py_ssize_t n = streams->pairs - first < most ? streams->pairs - first : most;
    uint64_t *to = out + first * words;
    weir_seeds(streams, first, n, seeds);
    if (words > 2 * BLOCKS)
      for (Py_ssize_t i = 0; i < n; i++) long_stream(streams, seeds + 2 * i, to + i * words, words);
    else
      short_streams(streams, seeds, n, to, words);
    kind(to, n * words);
  }
}

PyObject *weir_draw(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[WEIR_NAMED + 1];
  weir_streams streams;
  if (!weir_take(args, views, WEIR_NAMED + 1, 1u << 5)) return NULL;
  const unsigned char *kind = views[6].buf;
  int fits = weir_streams_of(views, &streams) && views[6].len == 1 && *kind < sizeof KINDS / sizeof *KINDS &&
             (streams.pairs ? views[5].len % (8 * streams.pairs) == 0 : views[5].len == 0);
  if (fits && views[5].len) {
    Py_BEGIN_ALLOW_THREADS
    draw(&streams, views[5].buf, views[5].len / 8 / streams.pairs, KINDS[*kind]);
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, WEIR_NAMED + 1, fits ? NULL : "keys must have 16 bytes, heads be (K, 2), labels (m, 2), digests (m, K, 2), out (m, K, count).");
}
