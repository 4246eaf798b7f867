/* What the files of this folder share. */
#ifndef WEIR_KERNELS_H
#define WEIR_KERNELS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Raised, here and in __init__.py, with every change of what a kernel takes or gives, and with every new
   one: a module that was built from other sources is then not used. */
#define WEIR_VERSION 3

/* A loop compiled twice, for any x86 and for wider registers, chosen when the module is loaded.
   Both give the same bits: no operation is contracted or reordered. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WEIR_WIDE __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define WEIR_WIDE
#endif

PyObject *weir_correlate(PyObject *self, PyObject *args);
PyObject *weir_normal(PyObject *self, PyObject *args);
PyObject *weir_objects(PyObject *self, PyObject *args);

#endif
