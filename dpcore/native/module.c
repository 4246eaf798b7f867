/* The module: one row a kernel, whose file says what it does. */
#include "kernels.h"

static PyObject *version(PyObject *self, PyObject *args) {
  (void)self;
  (void)args;
  return PyLong_FromUnsignedLong(WEIR_VERSION);
}

#define ROW(name, says) {#name, weir_##name, METH_VARARGS, says}

static PyMethodDef methods[] = {
    ROW(accumulate, "accumulate(values, shape): sums, or XORs, of rows so far; shape: rows, kind."),
    ROW(add_events, "add_events(columns, ticks, codes, rows, channels, shape, counts, grid): events summed by cell."),
    {"aes", weir_aes, METH_NOARGS, "aes(): whether the processor has instructions for AES."},
    ROW(ball_follow, "ball_follow(x, sum, last, weight, before, numbers, scratch, fresh, gap, bound): ball_step behind sums."),
    ROW(ball_step, "ball_step(x, y, bound, numbers, scratch, fresh, gap): towards the nearest points of an l1 ball."),
    ROW(blake2b, "blake2b(key, person, data, offsets, out): BLAKE2b of spans of bytes."),
    ROW(cell_digests, "cell_digests(key, heads, ticks, values, out): CBC-MACs of rows."),
    ROW(cells, "cells(data, starts, ends, wanted, at, sizes, there, plain, delimiter): fields of plain lines of CSV."),
    ROW(correlate, "correlate(units, noise, buffers, theta, omega): a stride; buffers move on."),
    ROW(correlate_exact, "correlate_exact(units, buffers, numbers, curves, bits): the same in integers; units get what is behind them."),
    ROW(discrete, "discrete(mac, stream, heads, labels, digests, out, coordinates, constants, powers): samples; how many are undecided."),
    ROW(doubles, "doubles(values): how many are NaN, and of how many adding 0 changes the bits."),
    ROW(draw, "draw(mac, stream, heads, labels, digests, out, kind): words of streams, or numbers made of them."),
    ROW(encrypt, "encrypt(key, source, out): AES-128 of each block."),
    ROW(extremes, "extremes(values, out): the smallest and the largest of whole numbers."),
    ROW(event_rows, "event_rows(columns, ends, shape, bounds, counts, table): rows of whole numbers; whether all fit."),
    ROW(event_sums, "event_sums(columns, ends, shape, bounds, counts, starts, stops, cells, sums, kind): sums of products of such rows."),
    ROW(excess, "excess(mac, stream, heads, labels, out, ticks, keys, digests, counts, curves, poles, coordinate, rows, tables, of, powers): how far noisy counts come above limits."),
    ROW(exponential, "exponential(words, out): exponential variables, 8 bytes each."),
    ROW(fields, "fields(data, starts, ends, names, nodes, at, sizes, there, plain): fields of plain lines of JSON."),
    ROW(gather, "gather(data, at, sizes, offsets, out): spans of bytes, one behind the other."),
    ROW(hash_numbers, "hash_numbers(key, numbers, out): CBC-MACs of the decimal digits of whole numbers."),
    ROW(hash_spans, "hash_spans(key, offsets, data, out): CBC-MACs of spans of bytes."),
    ROW(leaf_digests, "leaf_digests(key, heads, leaves, out): CBC-MACs of leaves; 0 gives 0."),
    ROW(logarithm, "logarithm(values, out): natural logarithms of positive normal numbers."),
    ROW(lookup, "lookup(slots, known, asked, out): where hashes are in a table, or -1."),
    ROW(mac, "mac(key, first, numbers, last, out): CBC-MACs of three blocks each."),
    ROW(newlines, "newlines(data, out, wanted, seen): where the first are, as many as there is room for; how many there are; which "
                  "of two other bytes."),
    ROW(normal, "normal(words, out): standard normals, 8 bytes each."),
    ROW(number, "number(hashes, slots, count, numbers, fresh, known): of each hash when it first came."),
    ROW(objects, "objects(data, starts, ends, name, size, lengths, places, numbers, rest, ...)."),
    ROW(renumber, "renumber(slots, larger): a table moved into a larger one."),
    ROW(running, "running(total, leaves, drawn, noisy, out): exact sums in two limbs move on; with noise, in 64 bits and as doubles."),
    ROW(sum_cells, "sum_cells(ticks, rows, counts, values, ..., words, room, shape): cells added up; how many there are, or -1."),
    ROW(ticks, "ticks(times, clock, out, ends): ticks of times, and the ends of these."),
    ROW(times, "times(data, offsets, out, kinds): microseconds of times in ISO 8601."),
    ROW(untouched, "untouched(order, high, low, keys, ticks, periods, caps, out): users whom no cap touches."),
    ROW(vectors, "vectors(words, out, d): of density exp(-||x||_2); words are used up."),
    {"version", version, METH_NOARGS, "version(): of the sources that it was built from."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernels", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModuleDef_Init(&definition); }
