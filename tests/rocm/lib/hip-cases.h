/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Cases of programs in C that call HIP. */
#ifndef HIP_CASES_H
#define HIP_CASES_H

#include <hip/hip_runtime_api.h>

#include "cases.h"

/* Calls HIP; a failure ends the program. */
#define HIP(call) hip_ok(call, #call)

static inline void hip_ok(hipError_t error, const char *call)
{
	if (error != hipSuccess)
		case_abort(call, hipGetErrorString(error));
}

#endif
