// SPDX-License-Identifier: GPL-2.0
/*
 * Instantiates the tracepoints of trace.h.
 */

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "trace.h"
