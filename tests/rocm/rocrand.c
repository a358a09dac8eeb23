// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Random numbers of rocRAND's generators on the GPU, compared with those of the same generators on
 * the CPU.
 */
#include "lib/hip-cases.h"

/* Its header uses this type, which HIP's headers define in C++ only. */
typedef _Float16 __half;
#include <rocrand/rocrand.h>
#include <stdlib.h>
#include <string.h>

/* No multiple of the threads of a launch. */
#define COUNT 10007u
#define SEED 0x1234567890abcdefull

#define RAND(call) case_check(call, #call)

/* Two calls, as the second goes on where the first ended. */
static void generate(rocrand_generator generator, unsigned int *to)
{
	RAND(rocrand_set_seed(generator, SEED));
	RAND(rocrand_generate(generator, to, COUNT));
	RAND(rocrand_generate(generator, to + COUNT, COUNT));
	RAND(rocrand_destroy_generator(generator));
}

static void integers(rocrand_rng_type type)
{
	size_t bytes = 2 * COUNT * sizeof(unsigned int);
	unsigned int *by_gpu = malloc(bytes), *by_cpu = malloc(bytes), *gpu, wrong = 0, equal = 0;
	rocrand_generator generator;

	if (!by_gpu || !by_cpu)
		case_abort("malloc", "no memory");
	HIP(hipMalloc((void **)&gpu, bytes));
	RAND(rocrand_create_generator(&generator, type));
	generate(generator, gpu);
	HIP(hipMemcpy(by_gpu, gpu, bytes, hipMemcpyDeviceToHost));
	RAND(rocrand_create_generator_host_blocking(&generator, type));
	generate(generator, by_cpu);
	for (unsigned int i = 0; i < 2 * COUNT; i++) {
		if (by_gpu[i] != by_cpu[i] && !wrong++)
			case_failed("number %u is %#x, not %#x", i, by_gpu[i], by_cpu[i]);
		equal += i && by_cpu[i] == by_cpu[i - 1];
	}
	if (wrong > 1)
		case_failed("%u of %u numbers are wrong", wrong, 2 * COUNT);
	if (equal > 1)
		case_failed("%u numbers are equal to their predecessors", equal);
	HIP(hipFree(gpu));
	free(by_gpu);
	free(by_cpu);
}

static void philox(void)
{
	integers(ROCRAND_RNG_PSEUDO_PHILOX4_32_10);
}

static void xorwow(void)
{
	integers(ROCRAND_RNG_PSEUDO_XORWOW);
}

static const struct one_case cases[] = {
	{ "philox", philox },
	{ "xorwow", xorwow },
};

int main(int argc, char **argv)
{
	return cases_main(argc, argv, "rocrand", cases, ARRAY_SIZE(cases), 600);
}
