// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the bodies of the trace points of trace.h.
 */

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "trace.h"
