/* The module: one row a kernel, whose file says what it does. */
#include "kernels.h"

static PyObject *version(PyObject *self, PyObject *args) {
  (void)self;
  (void)args;
  return PyLong_FromLong(WEIR_VERSION);
}

static PyMethodDef methods[] = {
    {"version", version, METH_NOARGS, "version(): of the sources that it was built from."},
    {"correlate", weir_correlate, METH_VARARGS, "correlate(units, noise, buffers, theta, omega): a stride; buffers move on."},
    {"objects", weir_objects, METH_VARARGS, "objects(data, starts, ends, name, size, lengths, places, numbers, rest, ...)."},
    {"normal", weir_normal, METH_VARARGS, "normal(words, out): standard normals, 8 bytes each."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernels", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModuleDef_Init(&definition); }
