// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Kernels that hiprtc compiles in the program that launches them. */
#include "lib/hip-cases.h"

#include <hip/hiprtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No multiple of a workgroup. */
#define COUNT 5003u
#define GROUP 256u

static void rtc_ok(hiprtcResult result, const char *call)
{
	if (result != HIPRTC_SUCCESS)
		case_abort(call, hiprtcGetErrorString(result));
}
#define RTC(call) rtc_ok(call, #call)

static const char source[] =
	"template <typename T> __global__ void scale(T *to, const T *from, T by, unsigned int count)\n"
	"{\n"
	"	unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
	"	__shared__ T tile[256];\n"
	"\n"
	"	tile[threadIdx.x] = i < count ? from[i] : T(0);\n"
	"	__syncthreads();\n"
	"	/* The neighbour on the right in the workgroup, or the first one. */\n"
	"	if (i < count)\n"
	"		to[i] = by * tile[(threadIdx.x + 1) % 256] + T(OFFSET);\n"
	"}\n";

/* Compiles `text` for the GPU; returns what the compiler does. */
static hiprtcResult compile(const char *text, const char *expression, hiprtcProgram *program)
{
	const char *options[] = { NULL, "-DOFFSET=3", "-O2" };
	char arch[sizeof(((hipDeviceProp_t *)0)->gcnArchName) + 32];
	hipDeviceProp_t properties;

	HIP(hipGetDeviceProperties(&properties, 0));
	snprintf(arch, sizeof(arch), "--gpu-architecture=%s", properties.gcnArchName);
	options[0] = arch;
	RTC(hiprtcCreateProgram(program, text, "scale.hip", 0, NULL, NULL));
	if (expression)
		RTC(hiprtcAddNameExpression(*program, expression));
	return hiprtcCompileProgram(*program, ARRAY_SIZE(options), options);
}

/* Compiles the instance of the template that `expression` names and returns its function. */
static hipFunction_t function(const char *expression, hipModule_t *module)
{
	hiprtcProgram program;
	hipFunction_t entry;
	const char *name;
	size_t size;
	char *code;

	RTC(compile(source, expression, &program));
	RTC(hiprtcGetLoweredName(program, expression, &name));
	RTC(hiprtcGetCodeSize(program, &size));
	code = malloc(size);
	if (!code)
		case_abort("malloc", "no memory");
	RTC(hiprtcGetCode(program, code));
	HIP(hipModuleLoadData(module, code));
	HIP(hipModuleGetFunction(&entry, *module, name));
	RTC(hiprtcDestroyProgram(&program));
	free(code);
	return entry;
}

/* Returns the index whose element the kernel scales for element `i`. */
static unsigned int neighbour(unsigned int i)
{
	return i / GROUP * GROUP + (i + 1) % GROUP;
}

#define DEFINE_CASE(name, type, expression)                                                        \
	static void name(void)                                                                     \
	{                                                                                          \
		static type from[COUNT], to[COUNT];                                                \
		unsigned int count = COUNT, wrong = 0;                                             \
		type *gpu_from, *gpu_to, by = 5;                                                   \
		void *arguments[] = { &gpu_to, &gpu_from, &by, &count };                           \
		hipModule_t module;                                                                \
		hipFunction_t entry = function(expression, &module);                               \
                                                                                                   \
		for (unsigned int i = 0; i < COUNT; i++)                                           \
			from[i] = (type)(i % 1000);                                                \
		HIP(hipMalloc((void **)&gpu_from, sizeof(from)));                                  \
		HIP(hipMalloc((void **)&gpu_to, sizeof(to)));                                      \
		HIP(hipMemcpy(gpu_from, from, sizeof(from), hipMemcpyHostToDevice));               \
		HIP(hipModuleLaunchKernel(entry, (COUNT + GROUP - 1) / GROUP, 1, 1, GROUP, 1, 1, 0, \
					  NULL, arguments, NULL));                                 \
		HIP(hipMemcpy(to, gpu_to, sizeof(to), hipMemcpyDeviceToHost));                     \
		for (unsigned int i = 0; i < COUNT; i++) {                                         \
			type value = neighbour(i) < COUNT ? from[neighbour(i)] : 0;                \
                                                                                                   \
			if (to[i] != 5 * value + 3 && !wrong++)                                    \
				case_failed("element %u is %g, not %g", i, (double)to[i],          \
					    (double)(5 * value + 3));                              \
		}                                                                                  \
		if (wrong > 1)                                                                     \
			case_failed("%u elements are wrong", wrong);                               \
		HIP(hipFree(gpu_from));                                                            \
		HIP(hipFree(gpu_to));                                                              \
		HIP(hipModuleUnload(module));                                                      \
	}

DEFINE_CASE(floats, float, "scale<float>")
DEFINE_CASE(doubles, double, "scale<double>")

static void errors_are_in_the_log(void)
{
	static const char broken[] = "__global__ void broken(int *to)\n{\n\t*to = undeclared;\n}\n";
	hiprtcProgram program;
	hiprtcResult result = compile(broken, NULL, &program);
	size_t size;
	char *log;

	if (result != HIPRTC_ERROR_COMPILATION)
		case_failed("the compiler returns %s", hiprtcGetErrorString(result));
	RTC(hiprtcGetProgramLogSize(program, &size));
	log = calloc(1, size + 1);
	if (!log)
		case_abort("calloc", "no memory");
	RTC(hiprtcGetProgramLog(program, log));
	if (!strstr(log, "scale.hip:3:") || !strstr(log, "undeclared"))
		case_failed("the log is '%s'", log);
	free(log);
	RTC(hiprtcDestroyProgram(&program));
}

static const struct one_case cases[] = {
	{ "floats", floats },
	{ "doubles", doubles },
	{ "errors_are_in_the_log", errors_are_in_the_log },
};

int main(int argc, char **argv)
{
	return cases_main(argc, argv, "hiprtc", cases, ARRAY_SIZE(cases), 600);
}
