/* Times of ISO 8601 in their common form, each on its own: transforms/decode/time.py says which that is. */
#include "text.h"

enum { OTHER, ABSOLUTE, LOCAL };

#define MINUTE INT64_C(60000000)

/* Two digits, at most as many; -1 where they are none. */
static int two(Text at, int most) {
  unsigned tens = at[0] - '0', ones = at[1] - '0';
  int found = (int)(10 * tens + ones);
  return tens > 9 || ones > 9 || found > most ? -1 : found;
}

/* Days since 1970 of a day of the Gregorian calendar. */
static int64_t days(int year, int month, int day) {
  int y = month <= 2 ? year - 1 : year;
  int era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
  int of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  return (int64_t)era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static int length(int year, int month) {
  if (month == 2) return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/* YYYY-MM-DD, T or a space, hh:mm:ss, up to six digits of a second, Z or an offset or neither. */
static int time_of(Text at, Text end, int64_t *out) {
  if (end - at < 19 || at[4] != '-' || at[7] != '-' || (at[10] != 'T' && at[10] != ' ') || at[13] != ':' ||
      at[16] != ':')
    return OTHER;
  int century = two(at, 99), of_century = two(at + 2, 99), month = two(at + 5, 12), day = two(at + 8, 31);
  int hour = two(at + 11, 23), minute = two(at + 14, 59), second = two(at + 17, 59);
  if ((century | of_century | month | day | hour | minute | second) < 0 || month == 0 || day == 0) return OTHER;
  int year = 100 * century + of_century;
  if (day > length(year, month)) return OTHER;
  int64_t found = ((days(year, month, day) * 24 + hour) * 60 + minute) * MINUTE + second * INT64_C(1000000);
  at += 19;
  if (at < end && *at == '.') {
    int64_t unit = 100000;
    if (++at == end || (unsigned)(*at - '0') > 9) return OTHER;
    for (; at < end && (unsigned)(*at - '0') <= 9; at++, unit /= 10) {
      if (unit == 0) return OTHER;
      found += unit * (*at - '0');
    }
  }
  *out = found;
  if (at == end) return LOCAL;
  if (*at == 'Z' && end - at == 1) return ABSOLUTE;
  if (end - at != 6 || (*at != '+' && *at != '-') || at[3] != ':') return OTHER;
  int hours = two(at + 1, 23), minutes = two(at + 4, 59);
  if ((hours | minutes) < 0) return OTHER;
  int64_t ahead = (hours * 60 + minutes) * MINUTE;
  *out = *at == '+' ? found - ahead : found + ahead;
  return ABSOLUTE;
}

PyObject *weir_times(PyObject *self, PyObject *args) {
  (void)self;
  Py_buffer views[4];
  if (!weir_take(args, views, 4, 0xC)) return NULL;
  Py_ssize_t n = views[3].len;
  const int32_t *offsets = views[1].buf;
  int fits = views[1].len == 4 * (n + 1) && views[2].len == 8 * n;
  if (fits) fits = offsets[0] >= 0 && offsets[n] <= views[0].len;
  for (Py_ssize_t i = 0; fits && i < n; i++) fits = offsets[i] <= offsets[i + 1];
  if (fits) {
    Text data = views[0].buf;
    int64_t *out = views[2].buf;
    uint8_t *kinds = views[3].buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n; i++) {
      out[i] = 0;
      kinds[i] = (uint8_t)time_of(data + offsets[i], data + offsets[i + 1], out + i);
    }
    Py_END_ALLOW_THREADS
  }
  return weir_give(views, 4, fits ? NULL : "texts and the room for times do not fit each other.");
}
