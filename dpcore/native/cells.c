/* Fields of plain lines of CSV, each line on its own: transforms/decode/csv.py says which are plain. */
#include "json_number.h"

enum { UNUSED = -1, TEXT, NUMBER };

/* A field that a line has: of a kind, in a column. */
typedef struct {
  int64_t kind, column;
} Field;

typedef struct {
  Text base;
  const Field *fields;
  Py_ssize_t count, n, row; /* fields of a line, room of a column, place in it */
  int64_t *at, *sizes;
  uint8_t *there;
  unsigned char delimiter;
} Reader;

/* Keeps the bytes of a field; 0 where they are not plain. */
static int keep(const Reader *r, Py_ssize_t field, Text from, Text to) {
  const Field *f = r->fields + field;
  if (f->kind == UNUSED) return 1;
  Py_ssize_t place = f->column * r->n + r->row;
  if (f->kind == TEXT) {
    r->at[place] = from - r->base;
    r->sizes[place] = to - from;
    r->there[place] = 1;
    return 1;
  }
  double found = 0;
  r->there[place] = from < to;
  if (from < to && number(from, to, &found) != to) return 0;
  memcpy(r->at + place, &found, 8);
  return 1;
}

static int line(const Reader *r, Text at, Text end) {
  const unsigned char delimiter = r->delimiter;
  Text begin = at;
  unsigned char seen = 0;
  if (end - at >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) return 0;
  for (Py_ssize_t field = 0; field < r->count; field++) {
    int quoted = at < end && *at == '"';
    unsigned char until = quoted ? '"' : delimiter;
    at += quoted;
    Text from = at;
    for (; at < end && *at != until; at++) {
      unsigned char c = *at;
      if (c == '"' || (c < 0x20 && c != '\t')) return 0;
      seen |= c;
    }
    if (quoted && at == end) return 0;
    if (!keep(r, field, from, at)) return 0;
    at += quoted;
    if (field + 1 < r->count) {
      if (at == end || *at != delimiter) return 0;
      at++;
    }
  }
  return at == end && (seen < 0x80 || is_utf8(begin, end));
}

PyObject *weir_cells(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[9];
  if (!weir_take(args, views, 9, 0xF0)) return NULL;
  Py_ssize_t n = views[1].len / 8, count = views[3].len / (Py_ssize_t)sizeof(Field);
  const int64_t *from = views[1].buf, *to = views[2].buf;
  const Field *fields = views[3].buf;
  int fits = views[2].len == views[1].len && views[7].len == n && count > 0 && n > 0 && views[8].len == 1 &&
             views[4].len == views[5].len && views[4].len == 8 * views[6].len && views[6].len % n == 0;
  Py_ssize_t columns = n ? views[6].len / n : 0;
  for (Py_ssize_t i = 0; fits && i < n; i++) fits = 0 <= from[i] && from[i] <= to[i] && to[i] <= views[0].len;
  for (Py_ssize_t i = 0; fits && i < count; i++)
    fits = fields[i].kind >= UNUSED && fields[i].kind <= NUMBER &&
           (fields[i].kind == UNUSED || (fields[i].column >= 0 && fields[i].column < columns));
  if (fits) {
    uint8_t *plain = views[7].buf;
    Reader r = {views[0].buf, fields, count, n, 0, views[4].buf, views[5].buf, views[6].buf,
                *(const unsigned char *)views[8].buf};
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n; i++) {
      plain[i] = (uint8_t)line(&r, r.base + from[i], r.base + to[i]);
      r.row += plain[i];
    }
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 9, fits ? NULL : "lines, fields and the room for columns do not fit each other.");
}
