// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Error reports of the kernel in its log. */
#include <stddef.h>
#include <string.h>

#include "reports.h"

static const char *const marks[] = {
	"BUG:",
	"kernel BUG",
	"WARNING:",
	"Oops",
	"refcount_t:",
	"general protection",
	"UBSAN",
	"KASAN",
	"panicked at",
	"pagealloc: ",
	"possible recursive locking",
	"INFO: possible",
	"INFO: trying to register",
	"INFO: task",
	"rcu: INFO",
	REPORT_TRACE,
};

const char *kernel_report(const char *line)
{
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (strstr(line, marks[i]))
			return marks[i];
	return NULL;
}
