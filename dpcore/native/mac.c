/* Keyed hashes of ids, and of what belongs to a user: CBC-MACs of dpcore/leaves/hashes.py and
   dpcore/users/cells.py, many side by side. */
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

static const uint64_t KEPT[9] = {0,
                                 UINT64_C(0xFF),
                                 UINT64_C(0xFFFF),
                                 UINT64_C(0xFFFFFF),
                                 UINT64_C(0xFFFFFFFF),
                                 UINT64_C(0xFFFFFFFFFF),
                                 UINT64_C(0xFFFFFFFFFFFF),
                                 UINT64_C(0xFFFFFFFFFFFFFF),
                                 UINT64_C(0xFFFFFFFFFFFFFFFF)};

/* The next frame of a message, zeros behind its end; ``room`` bytes of data are left there. */
WEIR_INLINE void frame(const unsigned char *data, int64_t room, int64_t left, uint64_t *to) {
  if (room >= FRAME) {
    memcpy(to, data, FRAME);
    if (left < FRAME) {
      to[0] &= KEPT[left < 8 ? left : 8];
      to[1] &= KEPT[left > 8 ? left - 8 : 0];
    }
    return;
  }
  to[0] = to[1] = 0;
  memcpy(to, data, (size_t)(left < FRAME ? left : FRAME));
}

/* Up to SIDE messages of any length: those that go on move together. */
static void spans(const weir_schedule *key, const unsigned char *data, int64_t size, int64_t *at, int64_t *left, int n,
                  uint64_t *out) {
  uint64_t framed[2 * SIDE] = {0}, state[2 * SIDE];
  int row[SIDE];
  for (int i = 0; i < n; i++) framed[2 * i] = (uint64_t)left[i];
  weir_aes_blocks(key, framed, state, n);
  for (int i = 0; i < n; i++) row[i] = i;
  for (int live = n;;) {
    int more = 0;
    for (int i = 0; i < live; i++) {
      if (left[i] <= 0) {
        memcpy(out + 2 * row[i], state + 2 * i, FRAME);
        continue;
      }
      uint64_t next[2];
      frame(data + at[i], size - at[i], left[i], next);
      framed[2 * more] = state[2 * i] ^ next[0];
      framed[2 * more + 1] = state[2 * i + 1] ^ next[1];
      row[more] = row[i];
      at[more] = at[i] + FRAME;
      left[more++] = left[i] - FRAME;
    }
    if (!more) return;
    live = more;
    weir_aes_blocks(key, framed, state, live);
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
      if (fits) spans(&key, views[2].buf, views[2].len, from, sizes, some, (uint64_t *)views[3].buf + 2 * first);
    }
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 4, fits ? NULL : "offsets must not decrease, nor leave the data.");
}

/* Bits that are 0 in front of the lowest that is not; of no 0. */
static inline int trailing(uint64_t x) {
#ifdef __GNUC__
  return __builtin_ctzll(x);
#else
  int n = 0;
  for (; !(x & 1); x >>= 1) n++;
  return n;
#endif
}

/* Eight decimal digits of a number below 10^8, one a byte, the first in the lowest. */
static inline uint64_t eight(uint64_t n) {
  uint64_t fours = n / 10000 | (n % 10000) << 32;
  uint64_t tops = (fours * 10486 >> 20) & 0x0000007f0000007fu; /* a hundredth of each */
  uint64_t twos = tops | (fours - tops * 100) << 16;
  tops = (twos * 103 >> 10) & 0x000f000f000f000fu; /* a tenth of each */
  return tops | (twos - tops * 10) << 8;
}

/* A whole number as its decimal digits in ``text``, 32 bytes, zeros behind them; how many there are. */
static int spelled(int64_t number, uint64_t *text) {
  const uint64_t zeros = 0x3030303030303030u, most = 100000000;
  text[0] = text[1] = text[2] = text[3] = 0;
  if (number >= 0 && number < (int64_t)(most * most)) {
    uint64_t n = (uint64_t)number, digits = eight(n < most ? n : n / most);
    int none = digits ? trailing(digits) / 8 : 7; /* zeros in front */
    text[0] = (digits | zeros) >> 8 * none;
    if (n < most) return 8 - none;
    uint64_t rest = eight(n % most) | zeros;
    text[1] = none ? rest >> 8 * none : rest;
    if (none) text[0] |= rest << 8 * (8 - none);
    return 16 - none;
  }
  unsigned char digits[DIGITS];
  uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  int at = DIGITS;
  while (left >= 10) {
    digits[--at] = (unsigned char)('0' + left % 10);
    left /= 10;
  }
  digits[--at] = (unsigned char)('0' + left);
  if (number < 0) digits[--at] = '-';
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
        int length = spelled(numbers[first + i], text);
        framed[2 * i] = text[0]; /* word by word, as they were just written */
        framed[2 * i + 1] = text[1];
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
