/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* An allocation of the kernel that fails; needs a kernel with fault injection. */
#ifndef FAIL_ONE_H
#define FAIL_ONE_H

#include <stdbool.h>

/*
 * The `nth` allocation of this task from now on fails, and no other. Returns the file for
 * end_failing_one(), negative without fault injection.
 */
int fail_one(unsigned int nth);
/* Returns whether the allocation has failed. */
bool end_failing_one(int file);

/* Opens a file of /proc with a number higher than those of the program. */
int open_high(const char *path);
/* Writes a number to such a file. */
void write_number(int file, unsigned int value);
/* Ends the injection of /proc/PID/fail-nth. Returns whether the allocation has failed. */
bool end_nth(int file);

#endif
