// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Fourier transforms by rocFFT, compared with the sums that define them. */
#include "lib/hip-cases.h"

#include <complex.h>
#include <math.h>
#include <rocfft/rocfft.h>

#define FFT(call) case_check(call, #call)

#define LENGTH 60u
#define BATCH 3u

/* Transforms BATCH times LENGTH numbers in memory of the GPU, in place. */
static void transform(rocfft_transform_type type, void *gpu)
{
	const size_t length = LENGTH;
	rocfft_execution_info info = NULL;
	void *work = NULL, *buffers[] = { gpu };
	rocfft_plan plan;
	size_t size;

	FFT(rocfft_plan_create(&plan, rocfft_placement_inplace, type, rocfft_precision_single, 1, &length, BATCH,
			       NULL));
	FFT(rocfft_plan_get_work_buffer_size(plan, &size));
	FFT(rocfft_execution_info_create(&info));
	if (size) {
		HIP(hipMalloc(&work, size));
		FFT(rocfft_execution_info_set_work_buffer(info, work, size));
	}
	FFT(rocfft_execute(plan, buffers, NULL, info));
	HIP(hipDeviceSynchronize());
	FFT(rocfft_execution_info_destroy(info));
	FFT(rocfft_plan_destroy(plan));
	if (work)
		HIP(hipFree(work));
}

/*
 * There and back. Bound of an error: six units in the last place for each of the log2(N) steps,
 * relative to the largest sum possible, N; of what comes back, divided by N, a part of that.
 */
static void one_dimension(void)
{
	static float complex from[BATCH * LENGTH], to[BATCH * LENGTH];
	const double bound = 6 * 0x1p-24 * log2(LENGTH) * LENGTH;
	double worst = 0, worst_back = 0;
	double complex unit[LENGTH];
	unsigned int state = 1;
	void *gpu;

	FFT(rocfft_setup());
	for (size_t i = 0; i < LENGTH; i++)
		unit[i] = cexp(-2 * M_PI * I * (double)i / LENGTH);
	for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
		state = state * 1664525u + 1013904223u;
		from[i] = (float)(state >> 16 & 0xff) / 256 - 0.5f + I * ((float)(state >> 24) / 256 - 0.5f);
	}
	HIP(hipMalloc(&gpu, sizeof(from)));
	HIP(hipMemcpy(gpu, from, sizeof(from), hipMemcpyHostToDevice));
	transform(rocfft_transform_type_complex_forward, gpu);
	HIP(hipMemcpy(to, gpu, sizeof(to), hipMemcpyDeviceToHost));
	for (size_t i = 0; i < ARRAY_SIZE(to); i++) {
		double complex sum = 0;

		for (size_t n = 0; n < LENGTH; n++)
			sum += from[i / LENGTH * LENGTH + n] * unit[i % LENGTH * n % LENGTH];
		worst = fmax(worst, cabs(to[i] - sum));
	}
	transform(rocfft_transform_type_complex_inverse, gpu);
	HIP(hipMemcpy(to, gpu, sizeof(to), hipMemcpyDeviceToHost));
	for (size_t i = 0; i < ARRAY_SIZE(to); i++)
		worst_back = fmax(worst_back, cabs(to[i] / (double)LENGTH - from[i]));
	if (!(worst <= bound))
		case_failed("the largest error is %g, the bound %g", worst, bound);
	if (!(worst_back <= bound / LENGTH))
		case_failed("the largest error there and back is %g, the bound %g", worst_back, bound / LENGTH);
	HIP(hipFree(gpu));
	FFT(rocfft_cleanup());
}

static const struct one_case cases[] = {
	{ "one_dimension", one_dimension },
};

int main(int argc, char **argv)
{
	return cases_main(argc, argv, "rocfft", cases, ARRAY_SIZE(cases), 900);
}
