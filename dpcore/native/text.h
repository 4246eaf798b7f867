/* Bytes of text. */
#ifndef WEIR_TEXT_H
#define WEIR_TEXT_H

#include "kernels.h"

typedef const unsigned char *Text;

/* Whether bytes are UTF-8. */
static inline int is_utf8(Text at, Text end) {
  while (at < end) {
    unsigned char c = *at++;
    if (c < 0x80) continue;
    int more = c >= 0xC2 && c <= 0xDF ? 1 : (c & 0xF0) == 0xE0 ? 2 : c >= 0xF0 && c <= 0xF4 ? 3 : 0;
    if (more == 0 || end - at < more) return 0;
    if ((c == 0xE0 && *at < 0xA0) || (c == 0xED && *at > 0x9F) || (c == 0xF0 && *at < 0x90) ||
        (c == 0xF4 && *at > 0x8F))
      return 0;
    for (; more > 0; more--)
      if ((*at++ & 0xC0) != 0x80) return 0;
  }
  return 1;
}

#endif
