/* Fields of plain lines of JSON, each line on its own: transforms/decode/json_lines.py says which are plain. */
#include "json_number.h"

enum { TEXT, NUMBER, WHOLE, TRUTH, OBJECT };

#define DEEP 64
#define MOST_NODES 4096

/* A field that is asked for: bytes [name, name + size) of the names, inside of another field or -1, of a
   kind, in a column. */
typedef struct {
  int64_t name, size, parent, kind, column;
} Node;

typedef struct {
  Text base, names;
  const Node *nodes;
  Py_ssize_t count, n, row; /* nodes, room of a column, place in it */
  int64_t *at, *sizes;
  uint8_t *there, *met; /* met: nodes that the line has had */
  int high;             /* whether it holds bytes beyond ASCII */
} Reader;

/* Behind a text without escapes, or whose escapes are of two signs, if those are allowed; else NULL. */
static Text plain_text(Reader *r, Text at, Text end, int escapes) {
  unsigned char seen = 0;
  for (; at < end && *at != '"'; at++) {
    unsigned char c = *at;
    seen |= c;
    if (c < 0x20) return NULL;
    if (c == '\\' && (!escapes || ++at >= end || *at == 0 || !strchr("\"\\/bfnrt", *at))) return NULL;
  }
  r->high |= seen >> 7;
  return at < end ? at + 1 : NULL;
}

/* Behind a word; else NULL. */
static Text word(Text at, Text end, const char *spelled, Py_ssize_t size) {
  return end - at >= size && memcmp(at, spelled, size) == 0 ? at + size : NULL;
}

static Text members(Reader *r, Text at, Text end, Py_ssize_t parent, int deep);

/* Behind any value, that nobody asks for; NULL where it is not plain. */
static Text any_value(Reader *r, Text at, Text end, int deep) {
  if (at >= end || deep > DEEP) return NULL;
  double ignored;
  switch (*at) {
    case '"': return plain_text(r, at + 1, end, 1);
    case 't': return word(at, end, "true", 4);
    case 'f': return word(at, end, "false", 5);
    case 'n': return word(at, end, "null", 4);
    case '{': return members(r, at + 1, end, -2, deep + 1);
    case '[':
      at = over_blanks(at + 1, end);
      if (at < end && *at == ']') return at + 1;
      for (;;) {
        at = any_value(r, at, end, deep + 1);
        if (at == NULL) return NULL;
        at = over_blanks(at, end);
        if (at >= end) return NULL;
        if (*at == ']') return at + 1;
        if (*at++ != ',') return NULL;
        at = over_blanks(at, end);
      }
    default: return number(at, end, &ignored);
  }
}

/* Behind a whole number of at most 18 digits; else NULL. */
static Text whole_number(Text at, Text end, int64_t *out) {
  int minus = at < end && *at == '-', digits = 0;
  at += minus;
  if (!is_digit(at, end) || (*at == '0' && (minus || is_digit(at + 1, end)))) return NULL;
  int64_t w = 0;
  for (; is_digit(at, end); at++) {
    if (++digits > 18) return NULL;
    w = w * 10 + (*at - '0');
  }
  if (at < end && (*at == '.' || *at == 'e' || *at == 'E')) return NULL;
  *out = minus ? -w : w;
  return at;
}

/* Behind the value of a field that is asked for; NULL where it is not plain, or of another kind. */
static Text asked(Reader *r, Text at, Text end, Py_ssize_t node, int deep) {
  const Node *field = r->nodes + node;
  if (at >= end) return NULL;
  if (*at == 'n') return word(at, end, "null", 4);
  if (field->kind == OBJECT)
    return *at == '{' ? members(r, at + 1, end, node, deep + 1) : any_value(r, at, end, deep);
  Py_ssize_t place = field->column * r->n + r->row;
  int64_t *out = r->at + place;
  Text behind = NULL;
  if (field->kind == TEXT && *at == '"') {
    behind = plain_text(r, at + 1, end, 0);
    if (behind != NULL) {
      *out = at + 1 - r->base;
      r->sizes[place] = behind - at - 2;
    }
  } else if (field->kind == NUMBER) {
    double found;
    behind = number(at, end, &found);
    if (behind != NULL) memcpy(out, &found, 8);
  } else if (field->kind == WHOLE) {
    behind = whole_number(at, end, out);
  } else if (field->kind == TRUTH) {
    behind = word(at, end, "true", 4);
    *out = behind != NULL;
    if (behind == NULL) behind = word(at, end, "false", 5);
  }
  r->there[place] = behind != NULL;
  return behind;
}

/* The node of a name inside of another; -1: nobody asks for it. Fields often come in the same order. */
static Py_ssize_t node_of(const Reader *r, Text name, Py_ssize_t size, Py_ssize_t parent, Py_ssize_t *hint) {
  Py_ssize_t i = *hint;
  for (Py_ssize_t tried = 0; tried < r->count; tried++, i++) {
    if (i == r->count) i = 0;
    const Node *node = r->nodes + i;
    if (node->parent == parent && node->size == size && memcmp(r->names + node->name, name, size) == 0) {
      *hint = i + 1 == r->count ? 0 : i + 1;
      return i;
    }
  }
  return -1;
}

/* Behind an object whose brace was read; parent -2: nobody asks for what is inside. */
static Text members(Reader *r, Text at, Text end, Py_ssize_t parent, int deep) {
  Py_ssize_t hint = 0;
  if (deep > DEEP) return NULL;
  at = over_blanks(at, end);
  if (at < end && *at == '}') return at + 1;
  for (;;) {
    if (at >= end || *at++ != '"') return NULL;
    Text name = at;
    at = plain_text(r, at, end, 0);
    if (at == NULL) return NULL;
    Py_ssize_t node = parent == -2 ? -1 : node_of(r, name, at - 1 - name, parent, &hint);
    at = over_blanks(at, end);
    if (at >= end || *at++ != ':') return NULL;
    at = over_blanks(at, end);
    if (node < 0) {
      at = any_value(r, at, end, deep);
    } else {
      if (r->met[node]) return NULL; /* twice: which one counts is not decided here */
      r->met[node] = 1;
      at = asked(r, at, end, node, deep);
    }
    if (at == NULL) return NULL;
    at = over_blanks(at, end);
    if (at >= end) return NULL;
    if (*at == '}') return at + 1;
    if (*at++ != ',') return NULL;
    at = over_blanks(at, end);
  }
}

static int line(Reader *r, Text at, Text end, Py_ssize_t columns) {
  for (Py_ssize_t c = 0; c < columns; c++) r->there[c * r->n + r->row] = 0;
  memset(r->met, 0, r->count);
  r->high = 0;
  if (at >= end || *at != '{') return 0;
  Text behind = members(r, at + 1, end, -1, 0);
  return behind == end && (!r->high || is_utf8(at, end));
}

PyObject *weir_fields(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[9];
  if (!weir_take(args, views, 9, 0x1E0)) return NULL;
  Py_ssize_t n = views[1].len / 8, count = views[4].len / (Py_ssize_t)sizeof(Node);
  const int64_t *from = views[1].buf, *to = views[2].buf;
  const Node *nodes = views[4].buf;
  int fits = views[2].len == views[1].len && views[8].len == n && count <= MOST_NODES && n > 0 &&
             views[5].len == views[6].len && views[5].len == 8 * views[7].len && views[7].len % n == 0;
  Py_ssize_t columns = n ? views[7].len / n : 0;
  for (Py_ssize_t i = 0; fits && i < n; i++) fits = 0 <= from[i] && from[i] <= to[i] && to[i] <= views[0].len;
  for (Py_ssize_t i = 0; fits && i < count; i++)
    fits = nodes[i].name >= 0 && nodes[i].size >= 0 && nodes[i].name + nodes[i].size <= views[3].len &&
           nodes[i].parent >= -1 && nodes[i].parent < i && nodes[i].kind >= TEXT && nodes[i].kind <= OBJECT &&
           nodes[i].column >= 0 && (nodes[i].kind == OBJECT || nodes[i].column < columns);
  if (fits) {
    uint8_t met[MOST_NODES], *plain = views[8].buf;
    Reader r = {views[0].buf, views[3].buf, nodes, count, n, 0, views[5].buf, views[6].buf, views[7].buf, met, 0};
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n; i++) {
      plain[i] = (uint8_t)line(&r, r.base + from[i], r.base + to[i], columns);
      r.row += plain[i];
    }
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 9, fits ? NULL : "lines, nodes and the room for columns do not fit each other.");
}

#define LOOKED_AT 4096 /* bytes that stay in the first-level cache between two looks */

WEIR_WIDE static void look_for(const uint8_t *data, Py_ssize_t n, const uint8_t *wanted, uint8_t *seen) {
  uint8_t first = 0, second = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    first |= data[i] == wanted[0];
    second |= data[i] == wanted[1];
  }
  seen[0] |= first;
  seen[1] |= second;
}

PyObject *weir_newlines(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[4];
  if (!weir_take(args, views, 4, 1u << 1 | 1u << 3)) return NULL;
  Py_ssize_t n = views[1].len / 8, found = 0;
  const char *data = views[0].buf, *end = data + views[0].len;
  int64_t *out = views[1].buf;
  int fits = views[2].len == 2 && views[3].len == 2;
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    for (const char *at = data; at < end;) {
      Py_ssize_t size = end - at < LOOKED_AT ? end - at : LOOKED_AT;
      const char *stop = at + size;
      look_for((const uint8_t *)at, size, views[2].buf, views[3].buf);
      for (; at < stop; at++, found++) {
        at = memchr(at, '\n', stop - at);
        if (at == NULL) break;
        if (found < n) out[found] = at - data;
      }
      at = stop;
    }
    Py_END_ALLOW_THREADS
  }
  PyObject *given = weir_give(views, 4, fits ? NULL : "bytes to look for, and whether they were seen, must be two.");
  Py_XDECREF(given);
  return given ? PyLong_FromSsize_t(found) : NULL;
}

PyObject *weir_gather(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[5];
  if (!weir_take(args, views, 5, 0x18)) return NULL;
  Py_ssize_t n = views[1].len / 8;
  const int64_t *at = views[1].buf, *sizes = views[2].buf;
  int32_t *offsets = views[3].buf;
  int64_t total = 0;
  int fits = views[2].len == views[1].len && views[3].len == 4 * (n + 1);
  for (Py_ssize_t i = 0; fits && i < n; i++) {
    fits = sizes[i] >= 0 && sizes[i] <= INT32_MAX && at[i] >= 0 && at[i] <= views[0].len - sizes[i];
    total += sizes[i];
  }
  fits = fits && total <= INT32_MAX && views[4].len == total;
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    const char *from = views[0].buf;
    char *to = views[4].buf;
    int32_t used = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
      offsets[i] = used;
      memcpy(to + used, from + at[i], sizes[i]);
      used += (int32_t)sizes[i];
    }
    offsets[n] = used;
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 5, fits ? NULL : "spans, offsets and the room for bytes do not fit each other.");
}
