/* Numbers of JSON, each to its nearest double. */
#ifndef WEIR_JSON_NUMBER_H
#define WEIR_JSON_NUMBER_H

#include "text.h"

#define MOST_WHOLE (UINT64_C(1) << 53)

static const double TENS[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static inline Text over_blanks(Text at, Text end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')) at++;
  return at;
}

static inline int is_digit(Text at, Text end) { return at < end && *at >= '0' && *at <= '9'; }

#ifdef __SIZEOF_INT128__
typedef unsigned __int128 Long;

/* (q + something below 1 where more) * 2^shift, q >= 2^53, to the nearest double, halves to even. */
static double nearest(Long q, int more, int shift) {
  uint64_t high = (uint64_t)(q >> 64);
  int bits = high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll((uint64_t)q);
  int drop = bits - 54;
  if (drop > 0) {
    more |= (q & (((Long)1 << drop) - 1)) != 0;
    q >>= drop;
  } else {
    q <<= -drop;
  }
  uint64_t whole = (uint64_t)q >> 1;
  if (((uint64_t)q & 1) && (more || (whole & 1))) whole++;
  uint64_t power = (uint64_t)(1023 + drop + 1 + shift) << 52;
  double unit;
  memcpy(&unit, &power, 8);
  return (double)whole * unit;
}

/* w * 10^exponent, w > 0, exponent in -19 .. 19. */
static double scaled(uint64_t w, int exponent) {
  uint64_t ten = 1;
  for (int k = exponent < 0 ? -exponent : exponent; k > 0; k--) ten *= 10;
  if (exponent >= 0) return nearest((Long)w * ten, 0, 0);
  int left = __builtin_clzll(w);
  Long up = (Long)(w << left) << 64;
  return nearest(up / ten, up % ten != 0, -64 - left);
}
#define LONG_POWERS 19
#else
static double scaled(uint64_t w, int exponent) { return (void)w, (void)exponent, 0.0; }
#define LONG_POWERS -1
#endif

/* Behind a number, to the nearest double; NULL where it is none, or one that needs more care. */
static Text number(Text at, Text end, double *out) {
  int minus = at < end && *at == '-', digits = 0, exponent = 0;
  at += minus;
  if (!is_digit(at, end)) return NULL;
  uint64_t w = 0;
  if (*at == '0') {
    if (is_digit(++at, end)) return NULL;
  } else {
    for (; is_digit(at, end); at++, digits++) w = w * 10 + (*at - '0');
  }
  if (at < end && *at == '.') {
    if (!is_digit(++at, end)) return NULL;
    for (; is_digit(at, end); at++, exponent--) {
      w = w * 10 + (*at - '0');
      digits += w != 0;
    }
  }
  if (digits > 19 || exponent < -1000) return NULL; /* w may have lost its top */
  if (at < end && (*at == 'e' || *at == 'E')) {
    int down = ++at < end && *at == '-', power = 0;
    at += at < end && (*at == '-' || *at == '+');
    if (!is_digit(at, end)) return NULL;
    for (; is_digit(at, end); at++)
      if (power < 1000) power = power * 10 + (*at - '0');
    exponent += down ? -power : power;
  }
  double found;
  if (w == 0) {
    found = 0.0;
  } else if (w <= MOST_WHOLE && exponent >= -22 && exponent <= 22) {
    found = exponent < 0 ? (double)w / TENS[-exponent] : (double)w * TENS[exponent];
  } else if (exponent >= -LONG_POWERS && exponent <= LONG_POWERS) {
    found = scaled(w, exponent);
  } else {
    return NULL;
  }
  *out = minus ? -found : found;
  return at;
}

#endif
