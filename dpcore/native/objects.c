/* Objects of place to number cut out of lines of JSON: transforms/decode/ndjson.py says which. */
#include "json_number.h"

#define DEEPEST 500 /* Python's readers of JSON give up somewhere beyond. */
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
   see ndjson.py. Returns how many numbers were lifted, and the bytes of the rest. */
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
