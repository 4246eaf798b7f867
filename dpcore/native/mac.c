/* Keyed hashes of ids, and of what belongs to a user: CBC-MACs of dpcore/leaves/id_hash.py and
   dpcore/people/hashes.py, many side by side. */
#include "kernels.h"

#define SIDE 128 /* chained at once */
#define FRAME 16
#define DIGITS 20 /* of a whole number of 64 bits, its sign included */

/* The hash of a message begins with a frame that is its length alone. */
static void heads(const weir_schedule *key, uint64_t first, int n, uint64_t *out) {
  uint64_t framed[2 * SIDE] = {0};
  for (int i = 0; i < n; i++) framed[2 * i] = first + (uint64_t)i;
  weir_aes_blocks(key, framed, out, n);
}

/* One more frame of each of some messages: ``framed`` is what they say, ``state`` moves on. */
static void chain(const weir_schedule *key, uint64_t *framed, uint64_t *state, int n) {
  for (int i = 0; i < 2 * n; i++) framed[i] ^= state[i];
  weir_aes_blocks(key, framed, state, n);
}

/* Up to SIDE messages of any length. */
static void spans(const weir_schedule *key, const unsigned char *data, const int64_t *from, const int64_t *sizes, int n,
                  uint64_t *out) {
  uint64_t framed[2 * SIDE] = {0}, state[2 * SIDE];
  int live[SIDE];
  for (int i = 0; i < n; i++) framed[2 * i] = (uint64_t)sizes[i];
  weir_aes_blocks(key, framed, out, n);
  for (int64_t begin = 0;; begin += FRAME) {
    int some = 0;
    for (int i = 0; i < n; i++)
      if (sizes[i] > begin) live[some++] = i;
    if (!some) return;
    for (int j = 0; j < some; j++) {
      int i = live[j];
      int64_t left = sizes[i] - begin;
      memset(framed + 2 * j, 0, FRAME);
      memcpy(framed + 2 * j, data + from[i] + begin, (size_t)(left < FRAME ? left : FRAME));
      memcpy(state + 2 * j, out + 2 * i, FRAME);
    }
    chain(key, framed, state, some);
    for (int j = 0; j < some; j++) memcpy(out + 2 * live[j], state + 2 * j, FRAME);
  }
}

PyObject *weir_hash_spans(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[4]; /* key, offsets (n + 1,) of 4 or 8 bytes, data, out (n, 2) */
  weir_schedule key;
  if (!weir_take(args, views, 4, 8)) return NULL;
  Py_ssize_t n = views[3].len / 16, width = views[1].len / (n + 1);
  int fits = weir_aes_schedule(&views[0], &key) && views[3].len % 16 == 0 && (width == 4 || width == 8) &&
             views[1].len == width * (n + 1);
  if (fits) {
    const int32_t *narrow = views[1].buf;
    const int64_t *wide = views[1].buf;
    int64_t from[SIDE], sizes[SIDE];
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t first = 0; fits && first < n; first += SIDE) {
      int some = n - first < SIDE ? (int)(n - first) : SIDE;
      for (int i = 0; i < some; i++) {
        from[i] = width == 4 ? narrow[first + i] : wide[first + i];
        int64_t to = width == 4 ? narrow[first + i + 1] : wide[first + i + 1];
        fits &= from[i] >= 0 && from[i] <= to && to <= views[2].len;
        sizes[i] = to - from[i];
      }
      if (fits) spans(&key, views[2].buf, from, sizes, some, (uint64_t *)views[3].buf + 2 * first);
    }
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 4, fits ? NULL : "offsets must not decrease, nor leave the data.");
}

/* A whole number as its decimal digits from ``text`` on, zeros behind them; how many there are. */
static int spelled(int64_t number, unsigned char *text) {
  unsigned char digits[DIGITS + 4];
  uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  int at = DIGITS;
  do {
    digits[--at] = (unsigned char)('0' + left % 10);
    left /= 10;
  } while (left);
  if (number < 0) digits[--at] = '-';
  memset(text, 0, 2 * FRAME);
  memcpy(text, digits + at, (size_t)(DIGITS - at));
  return DIGITS - at;
}

PyObject *weir_hash_numbers(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[3]; /* key, numbers (n,), out (n, 2) */
  weir_schedule key;
  if (!weir_take(args, views, 3, 4)) return NULL;
  Py_ssize_t n = views[1].len / 8;
  int fits = weir_aes_schedule(&views[0], &key) && views[1].len % 8 == 0 && views[2].len == 16 * n;
  if (fits) {
    const int64_t *numbers = views[1].buf;
    uint64_t begun[2 * (DIGITS + 1)], *out = views[2].buf;
    uint64_t framed[2 * SIDE], state[2 * SIDE], text[4], later[2 * SIDE];
    int behind[SIDE];
    Py_BEGIN_ALLOW_THREADS
    heads(&key, 0, DIGITS + 1, begun);
    for (Py_ssize_t first = 0; first < n; first += SIDE) {
      int some = n - first < SIDE ? (int)(n - first) : SIDE, more = 0;
      for (int i = 0; i < some; i++) {
        int length = spelled(numbers[first + i], (unsigned char *)text);
        memcpy(framed + 2 * i, text, FRAME);
        memcpy(state + 2 * i, begun + 2 * length, FRAME);
        if (length > FRAME) {
          memcpy(later + 2 * more, text + 2, FRAME);
          behind[more++] = i;
        }
      }
      chain(&key, framed, state, some);
      memcpy(out + 2 * first, state, (size_t)(FRAME * some));
      if (more) {
        for (int j = 0; j < more; j++) memcpy(state + 2 * j, out + 2 * (first + behind[j]), FRAME);
        chain(&key, later, state, more);
        for (int j = 0; j < more; j++) memcpy(out + 2 * (first + behind[j]), state + 2 * j, FRAME);
      }
    }
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 3, fits ? NULL : "a key has 16 bytes, numbers are (n,), out is (n, 2).");
}

PyObject *weir_mac(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[5]; /* key, first (n, 2), numbers (n,), last (n, 2), out (n, 2) */
  weir_schedule key;
  if (!weir_take(args, views, 5, 16)) return NULL;
  Py_ssize_t n = views[2].len / 8;
  int fits = weir_aes_schedule(&views[0], &key) && views[2].len % 8 == 0 && views[1].len == 16 * n &&
             views[3].len == 16 * n && views[4].len == 16 * n;
  if (fits) {
    const uint64_t *first = views[1].buf, *numbers = views[2].buf, *last = views[3].buf;
    uint64_t *out = views[4].buf, framed[2 * SIDE], state[2 * SIDE];
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < n; at += SIDE) {
      int some = n - at < SIDE ? (int)(n - at) : SIDE;
      weir_aes_blocks(&key, first + 2 * at, state, some);
      for (int i = 0; i < some; i++) {
        framed[2 * i] = numbers[at + i];
        framed[2 * i + 1] = 0;
      }
      chain(&key, framed, state, some);
      memcpy(framed, last + 2 * at, (size_t)(FRAME * some));
      chain(&key, framed, state, some);
      memcpy(out + 2 * at, state, (size_t)(FRAME * some));
    }
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 5, fits ? NULL : "first, last and out must be (n, 2), numbers (n,), a key has 16 bytes.");
}
