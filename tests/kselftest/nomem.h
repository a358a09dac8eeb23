/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Memory allocations of kernel threads that fail; needs a kernel with fault injection. */
#ifndef NOMEM_H
#define NOMEM_H

/*
 * Makes all allocations of slabs by the workers of the kernel fail, until nomem_end(). Skips the
 * test without fault injection.
 */
void nomem_begin(void);
void nomem_end(void);

#endif
