/* Objects of place to number cut out of lines of JSON: transforms/decode/lifted.py says which. */
#include "kernels.h"

typedef const unsigned char *Text;

#define DEEPEST 500 /* Python's readers of JSON give up somewhere beyond. */
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

/* Behind an object of places below size to numbers, which are added from count on; else NULL. */
static Text object(Text at, Text end, int64_t size, int64_t *places, double *numbers, Py_ssize_t *count) {
  at = over_blanks(at + 1, end);
  if (at < end && *at == '}') return at + 1;
  for (;;) {
    if (at >= end || *at++ != '"' || !is_digit(at, end)) return NULL;
    int64_t place = *at++ - '0';
    if (place == 0 && is_digit(at, end)) return NULL;
    for (; is_digit(at, end); at++)
      if ((place = place * 10 + (*at - '0')) >= size) return NULL;
    if (place >= size || at >= end || *at++ != '"') return NULL;
    at = over_blanks(at, end);
    if (at >= end || *at++ != ':') return NULL;
    at = number(over_blanks(at, end), end, numbers + *count);
    if (at == NULL) return NULL;
    places[(*count)++] = place;
    at = over_blanks(at, end);
    if (at >= end) return NULL;
    if (*at == '}') return at + 1;
    if (*at++ != ',') return NULL;
    at = over_blanks(at, end);
  }
}

/* Behind a text whose first mark was read; NULL where the line ends in it. */
static Text text(Text at, Text end, int *escapes) {
  for (; at < end && *at != '"'; at++) {
    if (*at != '\\') continue;
    *escapes = 1;
    if (++at >= end) return NULL;
  }
  return at < end ? at + 1 : NULL;
}

/* Behind any value, which nobody looks into. */
static Text value(Text at, Text end) {
  int depth = 0, escapes = 0;
  while (at < end) {
    unsigned char c = *at;
    if (c == '"') {
      if ((at = text(at + 1, end, &escapes)) == NULL) return NULL;
      if (!depth) return at;
      continue;
    }
    if (c == '{' || c == '[') {
      if (++depth > DEEPEST) return NULL;
    } else if (c == '}' || c == ']') {
      if (!depth) return at;
      if (!--depth) return at + 1;
    } else if (!depth && c == ',') {
      return at;
    }
    at++;
  }
  return NULL;
}

/* Where the object of the field called name lies in a line, if it can be lifted. */
static int lift(Text at, Text end, Text name, Py_ssize_t length, int64_t size, int64_t *places, double *numbers,
                Py_ssize_t *count, Text span[2]) {
  Py_ssize_t first = *count;
  int found = 0;
  at = over_blanks(at, end);
  if (at >= end || *at != '{') return 0;
  at = over_blanks(at + 1, end);
  for (;;) {
    int escapes = 0;
    if (at >= end || *at != '"') goto odd;
    Text key = at + 1;
    if ((at = text(key, end, &escapes)) == NULL || escapes) goto odd;
    int ours = at - 1 - key == length && memcmp(key, name, length) == 0;
    at = over_blanks(at, end);
    if (at >= end || *at != ':') goto odd;
    at = over_blanks(at + 1, end);
    if (ours) {
      if (found++ || at >= end || *at != '{') goto odd;
      span[0] = at;
      span[1] = at = object(at, end, size, places, numbers, count);
    } else {
      at = value(at, end);
    }
    if (at == NULL) goto odd;
    at = over_blanks(at, end);
    if (at >= end) goto odd;
    if (*at == '}') break;
    if (*at != ',') goto odd;
    at = over_blanks(at + 1, end);
  }
  if (found) return 1;
odd:
  *count = first;
  return 0;
}

/* objects(data, starts, ends, name, size, lengths, places, numbers, rest, rest_starts, rest_ends):
   see lifted.py. Returns how many numbers were lifted, and the bytes of the rest. */
PyObject *weir_objects(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer data, starts, ends, name, lengths, places, numbers, rest, rest_starts, rest_ends;
  long long size;
  if (!PyArg_ParseTuple(args, "y*y*y*y*Lw*w*w*w*w*w*", &data, &starts, &ends, &name, &size, &lengths, &places,
                        &numbers, &rest, &rest_starts, &rest_ends))
    return NULL;
  Py_ssize_t n = starts.len / 8, count = 0, used = 0;
  const int64_t *from = starts.buf, *to = ends.buf;
  int64_t *length = lengths.buf, *rest_from = rest_starts.buf, *rest_to = rest_ends.buf;
  /* A number takes 6 bytes at least ("0":0, and a brace); a line of the rest 2 and its end more. */
  int fits = ends.len == starts.len && lengths.len == starts.len && rest_starts.len == starts.len &&
             rest_ends.len == starts.len && places.len / 8 >= data.len / 6 + 1 && numbers.len == places.len &&
             rest.len >= data.len + 3 * n;
  Text base = data.buf;
  char *out = rest.buf;
  int64_t before = 0;
  for (Py_ssize_t i = 0; fits && i < n; i++) {
    fits = before <= from[i] && from[i] <= to[i] && to[i] <= data.len;
    before = to[i];
  }
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n; i++) {
      Text at = base + from[i], end = base + to[i], span[2] = {end, end};
      Py_ssize_t first = count;
      int lifted = lift(at, end, name.buf, name.len, size, places.buf, numbers.buf, &count, span);
      length[i] = lifted ? count - first : -1;
      if (!lifted) span[0] = span[1] = end;
      rest_from[i] = used;
      memcpy(out + used, at, span[0] - at);
      used += span[0] - at;
      if (lifted) memcpy(out + used, "null", 4), used += 4;
      memcpy(out + used, span[1], end - span[1]);
      used += end - span[1];
      rest_to[i] = used;
      out[used++] = '\n';
    }
    Py_END_ALLOW_THREADS
  }
  Py_buffer *all[] = {&data, &starts, &ends, &name, &lengths, &places, &numbers, &rest, &rest_starts, &rest_ends};
  for (int i = 0; i < 10; i++) PyBuffer_Release(all[i]);
  if (!fits) {
    PyErr_SetString(PyExc_ValueError, "lines, or the room for what is lifted, do not fit the data.");
    return NULL;
  }
  return Py_BuildValue("nn", count, used);
}
