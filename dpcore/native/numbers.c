/* Hashes numbered in the order in which they first came: `HashNumbers` of dpcore/leaves/hash_sets.py.

   `slots` is an open table of 2^k words: 0, or the first half of a hash's second word above the number + 1. A hash belongs
   at the first k bits of that half, or behind, so that a table is doubled in order, without a look at the hashes. */
#include "kernels.h"

#define AHEAD 16 /* by so many hashes a slot is fetched before it is looked at */
#define MOST UINT32_MAX
#define CHUNK 18 /* bits of a number within its piece of what is known */

static int shift_of(uint64_t size) {
  int bits = 0;
  while (UINT64_C(1) << bits < size) bits++;
  return 64 - bits;
}

WEIR_INLINE uint64_t *hash_of(uint64_t *const *known, uint64_t number) {
  return known[number >> CHUNK] + 2 * (number & ((UINT64_C(1) << CHUNK) - 1));
}

/* The slot of a hash, or the empty one where it belongs. */
WEIR_INLINE uint64_t place(const uint64_t *slots, int shift, uint64_t *const *known, const uint64_t *hash) {
  uint64_t mask = (UINT64_C(1) << (64 - shift)) - 1;
  for (uint64_t at = hash[1] >> shift;; at = (at + 1) & mask) {
    uint64_t slot = slots[at];
    if (!slot) return at;
    if ((slot ^ hash[1]) >> 32) continue;
    const uint64_t *other = hash_of(known, (slot & MOST) - 1);
    if (other[0] == hash[0] && other[1] == hash[1]) return at;
  }
}

static void number(const uint64_t *hashes, Py_ssize_t n, uint64_t *const *known, uint64_t *slots, int shift, int64_t *count,
                   int64_t *numbers, unsigned char *fresh) {
  for (Py_ssize_t i = 0; i < n; i++) {
    const uint64_t *hash = hashes + 2 * i;
#ifdef __GNUC__
    if (i + AHEAD < n) __builtin_prefetch(slots + (hash[2 * AHEAD + 1] >> shift), 1);
#endif
    uint64_t at = place(slots, shift, known, hash);
    fresh[i] = !slots[at];
    if (fresh[i]) {
      memcpy(hash_of(known, (uint64_t)*count), hash, 16);
      slots[at] = (hash[1] >> 32) << 32 | (uint64_t)++*count;
    }
    numbers[i] = (int64_t)(slots[at] & MOST) - 1;
  }
}

static int table_of(const Py_buffer *slots, int64_t entries) {
  Py_ssize_t size = slots->len / 8;
  return slots->len % 8 == 0 && size > 1 && size <= INT64_C(1) << 32 && !(size & (size - 1)) && entries < size &&
         entries < MOST;
}

/* Pieces of what is known: how many hashes there is room for; -1 with an error set, where one is of another size. */
static int64_t pieces(PyObject *tuple, Py_buffer *views, uint64_t **known) {
  Py_ssize_t count = PyTuple_Size(tuple);
  for (Py_ssize_t i = 0; i < count; i++) {
    int taken = !PyObject_GetBuffer(PyTuple_GetItem(tuple, i), &views[i], PyBUF_WRITABLE);
    if (taken && views[i].len == INT64_C(16) << CHUNK) {
      known[i] = views[i].buf;
      continue;
    }
    if (taken) PyErr_SetString(PyExc_ValueError, "pieces of what is known are (2^18, 2).");
    for (i += taken; i-- > 0;) PyBuffer_Release(&views[i]);
    return -1;
  }
  return (int64_t)count << CHUNK;
}

PyObject *weir_number(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[5], *held; /* hashes (n, 2), slots, count (1,), numbers (n,), fresh (n,) */
  PyObject *tuple = PyTuple_Size(args) == 6 ? PyTuple_GetItem(args, 5) : NULL; /* known: arrays (2^18, 2) */
  if (!tuple || !PyTuple_Check(tuple)) {
    PyErr_SetString(PyExc_TypeError, "expected 5 buffers and a tuple of buffers.");
    return NULL;
  }
  PyObject *first = PyTuple_GetSlice(args, 0, 5);
  if (!first) return NULL;
  int taken = weir_take(first, views, 5, 30);
  Py_DECREF(first);
  if (!taken) return NULL;
  Py_ssize_t many = PyTuple_Size(tuple);
  held = PyMem_Malloc((size_t)(many + 1) * (sizeof(Py_buffer) + sizeof(uint64_t *)));
  uint64_t **known = (uint64_t **)(held + many + 1);
  int64_t room = held ? pieces(tuple, held, known) : -1;
  if (room < 0) {
    if (!held) PyErr_NoMemory();
    PyMem_Free(held);
    for (int i = 0; i < 5; i++) PyBuffer_Release(&views[i]);
    return NULL;
  }
  Py_ssize_t n = views[4].len;
  int64_t *count = views[2].buf;
  int fits = views[0].len == 16 * n && views[3].len == 8 * n && views[2].len == 8;
  if (fits) fits = *count >= 0 && room >= *count + n && table_of(&views[1], *count + n);
  if (fits) {
    Py_BEGIN_ALLOW_THREADS
    number(views[0].buf, n, known, views[1].buf, shift_of((uint64_t)views[1].len / 8), count, views[3].buf, views[4].buf);
    Py_END_ALLOW_THREADS
  }
  for (Py_ssize_t i = 0; i < many; i++) PyBuffer_Release(&held[i]);
  PyMem_Free(held);
  return weir_give(views, 5, fits ? NULL : "hashes must be (n, 2), numbers and fresh (n,), known and slots with room for them.");
}

/* Moves the entries of a table into an empty one that is larger. */
PyObject *weir_renumber(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[2]; /* slots, and larger ones */
  if (!weir_take(args, views, 2, 2)) return NULL;
  int fits = table_of(&views[0], 0) && table_of(&views[1], 0) && views[1].len > views[0].len;
  if (fits) {
    const uint64_t *old = views[0].buf;
    uint64_t *slots = views[1].buf, mask = (uint64_t)views[1].len / 8 - 1;
    int shift = shift_of((uint64_t)views[1].len / 8);
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < views[0].len / 8; i++) {
      if (!old[i]) continue;
      uint64_t at = old[i] >> shift;
      while (slots[at]) at = (at + 1) & mask;
      slots[at] = old[i];
    }
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 2, fits ? NULL : "both must be powers of two, the second the larger.");
}
