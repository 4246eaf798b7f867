/* `exact_log` and `_log_near_one` of dpcore/noise/gaussian.py, operation by operation. */
#ifndef WEIR_LOGARITHM_H
#define WEIR_LOGARITHM_H

#include "kernels.h"

WEIR_INLINE double log_near_one(double f) {
  double s = f / (f + 2.0), z = s * s;
  double series = z * (2.0 / 19);
  for (int k = 8; k > 0; k--) series = (series + 2.0 / (2 * k + 1)) * z;
  series = series + 0.0;
  return f - (f - series) * s;
}

WEIR_INLINE double exact_log(double x) {
  int64_t bits;
  memcpy(&bits, &x, 8);
  int64_t exponent = (bits - INT64_C(0x3FE6A09E667F3BCD)) >> 52;
  bits -= (int64_t)((uint64_t)exponent << 52);
  double fraction;
  memcpy(&fraction, &bits, 8);
  double power = (double)exponent;
  double out = log_near_one(fraction - 1.0);
  out = out + power * 0x1.cf79abc9e3b3ap-40;
  return out + power * 0x1.62e42fefa0000p-1;
}

#endif
