/* Events as rows of whole numbers, some at a time: rows.c bounds them, products.c multiplies them. */
#ifndef WEIR_ROWS_H
#define WEIR_ROWS_H

#define WEIR_BLOCK 512         /* rows at once, at most */
#define WEIR_NUMBERS (1 << 17) /* of a block of wide rows: it stays in the second-level cache */
#define WEIR_STRIDE 520        /* from column to column of a block: no multiple of a page */
#define WEIR_GROUP 8           /* rows that are shortened together, the short ones by a factor of 1 */

/* Of a column: values are moved into [low, high], `middle` becomes 0, `unit` steps are 1, and no
   more than `most` steps come out. */
typedef struct {
  double low, high, middle, unit, most;
} weir_ends;

/* A squared length that rows may have, and what over a longer one's length is its factor. */
typedef struct {
  double limit, scale;
} weir_limit;

typedef struct {
  const double *const *columns;
  const weir_ends *ends;
  Py_ssize_t features, width, constant; /* numbers of x, of (x, y); whether x ends with `one` */
  double one;
  weir_limit x, y;
  int64_t clipped, non_finite, broken;
} weir_rows;

/* A block: (width, WEIR_STRIDE), and of each row the squared lengths of x and y, room for a factor and a
   length, and whether it is void. */
typedef struct {
  double *table, *x, *y, *factor, *over;
  uint8_t *bad;
} weir_block;

/* Rows first .. first + n of the columns into the block; zeros up to a whole group behind them. */
void weir_bound(weir_rows *rows, weir_block b, Py_ssize_t first, Py_ssize_t n);

/* (width, WEIR_STRIDE) whole numbers, n of each column, a multiple of 8 -> the upper triangle of
   (width, width), exactly. most: numbers in the registers that are used, which no bit hangs on. */
void weir_products(const double *table, Py_ssize_t n, Py_ssize_t width, int64_t most, double *out);

#endif
