// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Products of matrices and vectors by rocBLAS, compared with the CPU's. All values are small
 * integers, so that each sum is exact in each type, in any order.
 */
#include "lib/hip-cases.h"

#include <rocblas/rocblas.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rocblas_handle handle;

static void blas(rocblas_status status, const char *call)
{
	if (status != rocblas_status_success)
		case_abort(call, rocblas_status_to_string(status));
}
#define BLAS(call) blas(call, #call)

/* Returns the handle, which the first case creates: rocBLAS then loads the kernels of the GPU. */
static rocblas_handle get_handle(void)
{
	if (!handle)
		BLAS(rocblas_create_handle(&handle));
	return handle;
}

/* Values from -2 to 2 in an order that no index repeats. */
static int value(uint32_t seed, unsigned int i)
{
	uint32_t x = (seed * 7919 + i) * 2654435761u;

	return (int)((x >> 16) % 5) - 2;
}

enum type { SINGLE, DOUBLE, HALF };

static size_t size_of(enum type type)
{
	return type == DOUBLE ? 8 : type == SINGLE ? 4 : 2;
}

static void put(enum type type, void *to, size_t i, int v)
{
	if (type == DOUBLE)
		((double *)to)[i] = v;
	else if (type == SINGLE)
		((float *)to)[i] = (float)v;
	else
		((_Float16 *)to)[i] = (_Float16)v;
}

static double get(enum type type, const void *from, size_t i)
{
	if (type == DOUBLE)
		return ((const double *)from)[i];
	if (type == SINGLE)
		return ((const float *)from)[i];
	return ((const _Float16 *)from)[i];
}

/* An operand: `count` elements as integers, and on the GPU in a type. */
struct operand {
	enum type type;
	size_t count;
	int *values;
	void *host, *gpu;
};

static struct operand make(enum type type, size_t count, uint32_t seed)
{
	struct operand o = { type, count, malloc(count * sizeof(int)), malloc(count * size_of(type)), NULL };

	if (!o.values || !o.host)
		case_abort("malloc", "no memory");
	for (size_t i = 0; i < count; i++) {
		o.values[i] = value(seed, (unsigned int)i);
		put(type, o.host, i, o.values[i]);
	}
	HIP(hipMalloc(&o.gpu, count * size_of(type)));
	HIP(hipMemcpy(o.gpu, o.host, count * size_of(type), hipMemcpyHostToDevice));
	return o;
}

static void drop(struct operand *o)
{
	HIP(hipFree(o->gpu));
	free(o->values);
	free(o->host);
}

/* Compares each element on the GPU, also those between columns, with the integers. */
static void compare(struct operand *o, const char *what)
{
	unsigned int wrong = 0;

	HIP(hipMemcpy(o->host, o->gpu, o->count * size_of(o->type), hipMemcpyDeviceToHost));
	for (size_t i = 0; i < o->count; i++) {
		double got = get(o->type, o->host, i);

		if (got != o->values[i] && !wrong++)
			case_failed("%s: element %zu is %g, not %d", what, i, got, o->values[i]);
	}
	if (wrong > 1)
		case_failed("%s: %u of %zu elements are wrong", what, wrong, o->count);
}

/* C = alpha A B + beta C; `transposed` is of A in bit 0, of B in bit 1. Columns are padded. */
struct gemm {
	unsigned int transposed;
	int m, n, k, pad, alpha, beta;
};

static int gemm_element(const struct gemm *g, const struct operand *a, int lda, const struct operand *b, int ldb, int i,
			int j)
{
	int sum = 0;

	for (int l = 0; l < g->k; l++) {
		int x = a->values[g->transposed & 1 ? l + i * lda : i + l * lda];
		int y = b->values[g->transposed & 2 ? j + l * ldb : l + j * ldb];

		sum += x * y;
	}
	return sum;
}

static void run_gemm(enum type type, const struct gemm *g)
{
	rocblas_operation op_a = g->transposed & 1 ? rocblas_operation_transpose : rocblas_operation_none;
	rocblas_operation op_b = g->transposed & 2 ? rocblas_operation_transpose : rocblas_operation_none;
	int lda = (g->transposed & 1 ? g->k : g->m) + g->pad, columns_a = g->transposed & 1 ? g->m : g->k;
	int ldb = (g->transposed & 2 ? g->n : g->k) + g->pad, columns_b = g->transposed & 2 ? g->k : g->n;
	int ldc = g->m + g->pad;
	struct operand a = make(type, (size_t)(lda * columns_a), 1), b = make(type, (size_t)(ldb * columns_b), 2);
	struct operand c = make(type, (size_t)(ldc * g->n), 3);
	double alpha[1], beta[1];
	char what[80];

	put(type, alpha, 0, g->alpha);
	put(type, beta, 0, g->beta);
	for (int j = 0; j < g->n; j++)
		for (int i = 0; i < g->m; i++)
			c.values[i + j * ldc] = g->alpha * gemm_element(g, &a, lda, &b, ldb, i, j) +
						g->beta * c.values[i + j * ldc];
	if (type == SINGLE)
		BLAS(rocblas_sgemm(get_handle(), op_a, op_b, g->m, g->n, g->k, (float *)alpha, a.gpu, lda, b.gpu, ldb,
				   (float *)beta, c.gpu, ldc));
	else if (type == DOUBLE)
		BLAS(rocblas_dgemm(get_handle(), op_a, op_b, g->m, g->n, g->k, alpha, a.gpu, lda, b.gpu, ldb, beta,
				   c.gpu, ldc));
	else
		BLAS(rocblas_hgemm(get_handle(), op_a, op_b, g->m, g->n, g->k, (rocblas_half *)alpha, a.gpu, lda, b.gpu,
				   ldb, (rocblas_half *)beta, c.gpu, ldc));
	snprintf(what, sizeof(what), "%c%c %dx%dx%d", "NT"[g->transposed & 1], "NT"[g->transposed >> 1], g->m, g->n,
		 g->k);
	compare(&c, what);
	drop(&a);
	drop(&b);
	drop(&c);
}

/* Whole tiles and partial ones, each combination of transposed operands, with and without C. */
static const struct gemm gemms[] = {
	{ 0, 64, 64, 64, 0, 1, 0 },   { 1, 65, 33, 70, 3, 1, 1 },  { 2, 96, 80, 64, 0, 2, -1 },
	{ 3, 128, 128, 128, 0, 1, 0 }, { 0, 7, 100, 128, 1, -1, 2 },
};

static void gemm(enum type type)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(gemms); i++)
		run_gemm(type, &gemms[i]);
}

static void sgemm(void)
{
	gemm(SINGLE);
}

static void dgemm(void)
{
	gemm(DOUBLE);
}

static void hgemm(void)
{
	gemm(HALF);
}

/* y = alpha A x + beta y, or with the transposed A; vectors with gaps. */
static void run_gemv(enum type type, bool transposed, int m, int n, int step_x, int step_y)
{
	rocblas_operation op = transposed ? rocblas_operation_transpose : rocblas_operation_none;
	int lda = m + 1, count_x = transposed ? m : n, count_y = transposed ? n : m;
	struct operand a = make(type, (size_t)(lda * n), 4), x = make(type, (size_t)(count_x * step_x), 5);
	struct operand y = make(type, (size_t)(count_y * step_y), 6);
	double alpha[1], beta[1];

	put(type, alpha, 0, 2);
	put(type, beta, 0, 3);
	for (int i = 0; i < count_y; i++) {
		int sum = 0;

		for (int j = 0; j < count_x; j++)
			sum += a.values[transposed ? j + i * lda : i + j * lda] * x.values[j * step_x];
		y.values[i * step_y] = 2 * sum + 3 * y.values[i * step_y];
	}
	if (type == SINGLE)
		BLAS(rocblas_sgemv(get_handle(), op, m, n, (float *)alpha, a.gpu, lda, x.gpu, step_x, (float *)beta,
				   y.gpu, step_y));
	else
		BLAS(rocblas_dgemv(get_handle(), op, m, n, alpha, a.gpu, lda, x.gpu, step_x, beta, y.gpu, step_y));
	compare(&y, transposed ? "T" : "N");
	drop(&a);
	drop(&x);
	drop(&y);
}

static void gemv(enum type type)
{
	run_gemv(type, false, 64, 128, 1, 1);
	run_gemv(type, true, 128, 64, 1, 1);
	run_gemv(type, false, 101, 67, 2, 3);
	run_gemv(type, true, 67, 101, 3, 2);
}

static void sgemv(void)
{
	gemv(SINGLE);
}

static void dgemv(void)
{
	gemv(DOUBLE);
}

static const struct one_case cases[] = {
	{ "sgemv", sgemv }, { "dgemv", dgemv }, { "sgemm", sgemm }, { "dgemm", dgemm }, { "hgemm", hgemm },
};

int main(int argc, char **argv)
{
	int status = cases_main(argc, argv, "rocblas", cases, ARRAY_SIZE(cases), 600);

	if (handle)
		rocblas_destroy_handle(handle);
	return status;
}
