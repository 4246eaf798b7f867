/* Arguments of kernels: contiguous buffers, taken and given back together. */
#include "kernels.h"

int weir_take(PyObject *args, Py_buffer *views, int count, unsigned writable) {
  if (PyTuple_Size(args) != count) {
    PyErr_Format(PyExc_TypeError, "expected %d buffers, got %zd.", count, PyTuple_Size(args));
    return 0;
  }
  for (int i = 0; i < count; i++) {
    int flags = writable >> i & 1 ? PyBUF_WRITABLE : PyBUF_SIMPLE;
    if (PyObject_GetBuffer(PyTuple_GetItem(args, i), &views[i], flags)) {
      while (i--) PyBuffer_Release(&views[i]);
      return 0;
    }
  }
  return 1;
}

/* What the kernel returns: None, or NULL behind a ValueError of this text. */
PyObject *weir_give(Py_buffer *views, int count, const char *error) {
  for (int i = 0; i < count; i++) PyBuffer_Release(&views[i]);
  if (error) {
    PyErr_SetString(PyExc_ValueError, error);
    return NULL;
  }
  Py_RETURN_NONE;
}
