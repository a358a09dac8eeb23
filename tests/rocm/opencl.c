// SPDX-License-Identifier: GPL-2.0 OR MIT
/* OpenCL: a kernel that is compiled at run time, with buffers, local memory and atomics. */
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>

#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"

#define GROUP 64u
#define COUNT (96 * GROUP)

#define CL(call) case_check(call, #call)

/* The GPU, its context and an in-order queue, made by the first case that needs them. */
static struct {
	cl_device_id device;
	cl_context context;
	cl_command_queue queue;
} gpu;

static void open_gpu(void)
{
	const cl_queue_properties properties[] = { CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0 };
	cl_platform_id platform;
	cl_int error;

	if (gpu.context)
		return;
	CL(clGetPlatformIDs(1, &platform, NULL));
	CL(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &gpu.device, NULL));
	gpu.context = clCreateContext(NULL, 1, &gpu.device, NULL, NULL, &error);
	case_check(error, "clCreateContext");
	gpu.queue = clCreateCommandQueueWithProperties(gpu.context, gpu.device, properties, &error);
	case_check(error, "clCreateCommandQueueWithProperties");
}

static void device_is_the_gpu(void)
{
	cl_device_type type = 0;
	cl_ulong memory = 0;
	char name[128] = "";

	open_gpu();
	CL(clGetDeviceInfo(gpu.device, CL_DEVICE_NAME, sizeof(name), name, NULL));
	CL(clGetDeviceInfo(gpu.device, CL_DEVICE_TYPE, sizeof(type), &type, NULL));
	CL(clGetDeviceInfo(gpu.device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(memory), &memory, NULL));
	if (strncmp(name, "gfx", 3))
		case_failed("the device is '%s'", name);
	if (!(type & CL_DEVICE_TYPE_GPU) || memory < 256u << 20)
		case_failed("type %#llx, %llu bytes of memory", (unsigned long long)type,
			    (unsigned long long)memory);
}

/* Builds a program; returns the error of the compiler, and its log in `log`. */
static cl_int build(const char *source, cl_program *program, char *log, size_t size)
{
	cl_int error;

	open_gpu();
	*program = clCreateProgramWithSource(gpu.context, 1, &source, NULL, &error);
	case_check(error, "clCreateProgramWithSource");
	error = clBuildProgram(*program, 1, &gpu.device, "-cl-std=CL2.0", NULL, NULL);
	memset(log, 0, size);
	CL(clGetProgramBuildInfo(*program, gpu.device, CL_PROGRAM_BUILD_LOG, size - 1, log, NULL));
	return error;
}

static void sums_of_workgroups(void)
{
	static const char source[] =
		"kernel void sums(global const uint *from, global uint *sums, global uint *odd, local uint *tile)\n"
		"{\n"
		"	uint id = get_local_id(0), size = get_local_size(0);\n"
		"\n"
		"	tile[id] = from[get_global_id(0)];\n"
		"	if (tile[id] & 1)\n"
		"		atomic_inc(odd);\n"
		"	for (uint width = size / 2; width; width /= 2) {\n"
		"		barrier(CLK_LOCAL_MEM_FENCE);\n"
		"		if (id < width)\n"
		"			tile[id] += tile[id + width];\n"
		"	}\n"
		"	if (!id)\n"
		"		sums[get_group_id(0)] = tile[0];\n"
		"}\n";
	static cl_uint from[COUNT], sums[COUNT / GROUP];
	const size_t global = COUNT, group = GROUP;
	cl_uint odd = 0, expected_odd = 0;
	cl_ulong begin = 0, end = 0;
	cl_mem buffers[3];
	char log[4096];
	cl_program program;
	cl_kernel kernel;
	cl_event event;
	cl_int error;

	error = build(source, &program, log, sizeof(log));
	if (error)
		case_abort("clBuildProgram", log);
	for (unsigned int i = 0; i < COUNT; i++) {
		from[i] = i * 2654435761u >> 8;
		expected_odd += from[i] & 1;
	}
	kernel = clCreateKernel(program, "sums", &error);
	case_check(error, "clCreateKernel");
	buffers[0] = clCreateBuffer(gpu.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof(from), from, &error);
	case_check(error, "clCreateBuffer");
	buffers[1] = clCreateBuffer(gpu.context, CL_MEM_WRITE_ONLY, sizeof(sums), NULL, &error);
	case_check(error, "clCreateBuffer");
	buffers[2] = clCreateBuffer(gpu.context, CL_MEM_COPY_HOST_PTR, sizeof(odd), &odd, &error);
	case_check(error, "clCreateBuffer");
	for (unsigned int i = 0; i < 3; i++)
		CL(clSetKernelArg(kernel, i, sizeof(buffers[i]), &buffers[i]));
	CL(clSetKernelArg(kernel, 3, GROUP * sizeof(cl_uint), NULL));
	CL(clEnqueueNDRangeKernel(gpu.queue, kernel, 1, NULL, &global, &group, 0, NULL, &event));
	CL(clEnqueueReadBuffer(gpu.queue, buffers[1], CL_TRUE, 0, sizeof(sums), sums, 0, NULL, NULL));
	CL(clEnqueueReadBuffer(gpu.queue, buffers[2], CL_TRUE, 0, sizeof(odd), &odd, 0, NULL, NULL));
	for (unsigned int g = 0; g < COUNT / GROUP; g++) {
		cl_uint sum = 0;

		for (unsigned int i = 0; i < GROUP; i++)
			sum += from[g * GROUP + i];
		if (sums[g] != sum)
			case_failed("sum %u is %#x, not %#x", g, sums[g], sum);
	}
	if (odd != expected_odd)
		case_failed("%u odd numbers were counted, not %u", odd, expected_odd);
	CL(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof(begin), &begin, NULL));
	CL(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL));
	if (!begin || end <= begin)
		case_failed("the kernel ran from %llu to %llu ns", (unsigned long long)begin,
			    (unsigned long long)end);
	CL(clReleaseEvent(event));
	for (unsigned int i = 0; i < 3; i++)
		CL(clReleaseMemObject(buffers[i]));
	CL(clReleaseKernel(kernel));
	CL(clReleaseProgram(program));
}

static void errors_are_in_the_log(void)
{
	char log[4096];
	cl_program program;
	cl_int error = build("kernel void broken(global int *to)\n{\n\t*to = undeclared;\n}\n", &program, log,
			     sizeof(log));

	if (error != CL_BUILD_PROGRAM_FAILURE)
		case_failed("the compiler returns %d", error);
	if (!strstr(log, "undeclared"))
		case_failed("the log is '%s'", log);
	CL(clReleaseProgram(program));
}

static const struct one_case cases[] = {
	{ "device_is_the_gpu", device_is_the_gpu },
	{ "sums_of_workgroups", sums_of_workgroups },
	{ "errors_are_in_the_log", errors_are_in_the_log },
};

int main(int argc, char **argv)
{
	return cases_main(argc, argv, "opencl", cases, ARRAY_SIZE(cases), 600);
}
