// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Products of matrices by hipBLASLt, compared with the CPU's. All values are small integers, so
 * that each sum is exact, in any order.
 */
#include "lib/hip-cases.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <hipblaslt/hipblaslt.h>

#define BLAS(call) case_check(call, #call)

/* No multiples of a tile. */
#define M 70
#define N 50
#define K 90
#define WORK (32u << 20)

/* Values from -2 to 2. */
static float next_value(uint32_t &state)
{
	state = state * 1664525u + 1013904223u;
	return (float)((int)((state >> 16) % 5) - 2);
}

/* Returns the layout of rows x columns values, or of those transposed. */
static hipblasLtMatrixLayout_t layout(hipDataType type, bool transposed, uint64_t rows, uint64_t columns)
{
	hipblasLtMatrixLayout_t result;

	if (transposed)
		std::swap(rows, columns);
	BLAS(hipblasLtMatrixLayoutCreate(&result, type, rows, columns, (int64_t)rows));
	return result;
}

template <typename T> static T *fill(std::vector<T> &to, uint32_t seed)
{
	T *gpu;

	for (size_t i = 0; i < to.size(); i++)
		to[i] = (T)next_value(seed);
	HIP(hipMalloc((void **)&gpu, to.size() * sizeof(T)));
	HIP(hipMemcpy(gpu, to.data(), to.size() * sizeof(T), hipMemcpyHostToDevice));
	return gpu;
}

/* D = 2 A B + C, of column-major matrices; sums are computed in single precision. */
template <typename T> static void product(hipDataType type, bool transpose_a, bool transpose_b)
{
	static hipblasLtHandle_t handle;
	const float alpha = 2, beta = 1;
	const int32_t a_op = transpose_a ? HIPBLAS_OP_T : HIPBLAS_OP_N;
	const int32_t b_op = transpose_b ? HIPBLAS_OP_T : HIPBLAS_OP_N;
	std::vector<T> a(M * K), b(K * N), c(M * N), d(M * N);
	T *gpu_a = fill(a, 1), *gpu_b = fill(b, 2), *gpu_c = fill(c, 3), *gpu_d = fill(d, 4);
	hipblasLtMatmulHeuristicResult_t found[1];
	hipblasLtMatmulPreference_t preference;
	hipblasLtMatmulDesc_t operation;
	hipblasLtMatrixLayout_t of_a = layout(type, transpose_a, M, K), of_b = layout(type, transpose_b, K, N),
				of_c = layout(type, false, M, N);
	const uint64_t most = WORK;
	int count = 0;
	void *work;

	if (!handle)
		BLAS(hipblasLtCreate(&handle));
	HIP(hipMalloc(&work, WORK));
	BLAS(hipblasLtMatmulDescCreate(&operation, HIPBLAS_COMPUTE_32F, HIP_R_32F));
	BLAS(hipblasLtMatmulDescSetAttribute(operation, HIPBLASLT_MATMUL_DESC_TRANSA, &a_op, sizeof(a_op)));
	BLAS(hipblasLtMatmulDescSetAttribute(operation, HIPBLASLT_MATMUL_DESC_TRANSB, &b_op, sizeof(b_op)));
	BLAS(hipblasLtMatmulPreferenceCreate(&preference));
	BLAS(hipblasLtMatmulPreferenceSetAttribute(preference, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
						   sizeof(most)));
	BLAS(hipblasLtMatmulAlgoGetHeuristic(handle, operation, of_a, of_b, of_c, of_c, preference, 1, found,
					     &count));
	if (!count)
		case_abort("hipblasLtMatmulAlgoGetHeuristic", "no kernel");
	BLAS(hipblasLtMatmul(handle, operation, &alpha, gpu_a, of_a, gpu_b, of_b, &beta, gpu_c, of_c, gpu_d, of_c,
			     &found[0].algo, work, WORK, nullptr));
	HIP(hipDeviceSynchronize());
	HIP(hipMemcpy(d.data(), gpu_d, d.size() * sizeof(T), hipMemcpyDeviceToHost));
	for (size_t row = 0; row < M; row++) {
		for (size_t column = 0; column < N; column++) {
			float sum = (float)c[column * M + row], got = (float)d[column * M + row];

			for (size_t i = 0; i < K; i++)
				sum += alpha * (float)a[transpose_a ? row * K + i : i * M + row] *
				       (float)b[transpose_b ? i * N + column : column * K + i];
			if (got != sum) {
				case_failed("row %zu of column %zu is %g, not %g", row, column, got, sum);
				row = M;
				break;
			}
		}
	}
	BLAS(hipblasLtMatmulPreferenceDestroy(preference));
	BLAS(hipblasLtMatmulDescDestroy(operation));
	for (hipblasLtMatrixLayout_t used : { of_a, of_b, of_c })
		BLAS(hipblasLtMatrixLayoutDestroy(used));
	for (void *memory : { (void *)gpu_a, (void *)gpu_b, (void *)gpu_c, (void *)gpu_d, work })
		HIP(hipFree(memory));
}

static void single_precision()
{
	product<float>(HIP_R_32F, false, false);
}

static void half_precision()
{
	product<_Float16>(HIP_R_16F, false, false);
}

static void half_precision_and_first_transposed()
{
	product<_Float16>(HIP_R_16F, true, false);
}

static void half_precision_and_second_transposed()
{
	product<_Float16>(HIP_R_16F, false, true);
}

static void bfloat()
{
	product<__bf16>(HIP_R_16BF, true, false);
}

static const struct one_case cases[] = {
	{ "single_precision", single_precision },
	{ "half_precision", half_precision },
	{ "half_precision_and_first_transposed", half_precision_and_first_transposed },
	{ "half_precision_and_second_transposed", half_precision_and_second_transposed },
	{ "bfloat", bfloat },
};

int main(int argc, char **argv)
{
	return cases_main(argc, argv, "hipblaslt", cases, ARRAY_SIZE(cases), 900);
}
