/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Error reports of the kernel in its log. */
#ifndef REPORTS_H
#define REPORTS_H

#define REPORT_TRACE "Call Trace"

/*
 * Returns the text by which a line of the log is part of an error report, whatever its origin; NULL
 * if it is not. REPORT_TRACE only for lines without another one.
 */
const char *kernel_report(const char *line);

#endif
