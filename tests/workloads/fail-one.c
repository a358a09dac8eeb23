// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Fault injection by /proc/PID/fail-nth. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fail-one.h"

/* Lower descriptors are those that the caller gets without fault injection. */
#define LOWEST_FILE 900

int open_high(const char *path)
{
	int low = open(path, O_RDWR | O_CLOEXEC);
	int fd = fcntl(low, F_DUPFD_CLOEXEC, LOWEST_FILE);

	close(low);
	return fd;
}

void write_number(int file, unsigned int value)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", value);

	if (pwrite(file, text, (size_t)length, 0) != length) {
		fprintf(stderr, "# fail-nth: no fault injection\n");
		abort();
	}
}

bool end_nth(int file)
{
	char text[16] = "";
	ssize_t n = pread(file, text, sizeof(text) - 1, 0);

	write_number(file, 0);
	return n > 0 && atoi(text) == 0;
}

int fail_one(unsigned int nth)
{
	int file = open_high("/proc/thread-self/fail-nth");

	if (file >= 0)
		write_number(file, nth);
	return file;
}

bool end_failing_one(int file)
{
	bool failed = file >= 0 && end_nth(file);

	close(file);
	return failed;
}
