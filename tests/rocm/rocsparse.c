// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Sparse matrices by rocSPARSE, compared with the CPU's results. All values are small integers, so
 * that each sum is exact, in any order.
 */
#include "lib/hip-cases.h"

#include <rocsparse/rocsparse.h>
#include <stdint.h>

#define ROWS 300
#define COLUMNS 260
#define MOST (ROWS * 40)
/* Columns of the dense matrix, and the distance of its columns in memory. */
#define DENSE 5
#define LD (COLUMNS + 3)
#define LD_OUT (ROWS + 1)

static void sparse(rocsparse_status status, const char *call)
{
	if (status != rocsparse_status_success)
		case_abort(call, rocsparse_get_status_name(status));
}
#define SPARSE(call) sparse(call, #call)

/* A matrix as compressed rows; on the CPU and on the GPU. */
struct matrix {
	rocsparse_int rows, count;
	rocsparse_int starts[ROWS + 1], columns[MOST];
	float values[MOST];
	rocsparse_int *gpu_starts, *gpu_columns;
	float *gpu_values;
};

static struct matrix m;
static rocsparse_handle handle;
static rocsparse_mat_descr description;
static uint32_t state = 1;

/* A number less than `n`. */
static unsigned int below(unsigned int n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 16) % n;
}

static float small(void)
{
	return (float)((int)below(5) - 2);
}

static void *copy(const void *from, size_t size)
{
	void *to;

	HIP(hipMalloc(&to, size));
	HIP(hipMemcpy(to, from, size, hipMemcpyHostToDevice));
	return to;
}

/*
 * Creates a matrix of which row i has between none and 40 values. Of a lower triangle the columns
 * are less than i, up to the last one, which is i and has the value 1.
 */
static void create(int triangle)
{
	m.rows = triangle ? COLUMNS : ROWS;
	m.count = 0;
	for (rocsparse_int i = 0; i < m.rows; i++) {
		unsigned int gap = 1 + below(COLUMNS);
		rocsparse_int end = triangle ? i : COLUMNS;

		m.starts[i] = m.count;
		for (rocsparse_int at = (rocsparse_int)below(gap); at < end && m.count - m.starts[i] < 39;
		     at += 1 + (rocsparse_int)below(gap)) {
			m.columns[m.count] = at;
			m.values[m.count++] = small();
		}
		if (triangle) {
			m.columns[m.count] = i;
			m.values[m.count++] = 1;
		}
	}
	m.starts[m.rows] = m.count;
	m.gpu_starts = copy(m.starts, sizeof(m.starts));
	m.gpu_columns = copy(m.columns, sizeof(m.columns));
	m.gpu_values = copy(m.values, sizeof(m.values));
	if (!handle)
		SPARSE(rocsparse_create_handle(&handle));
	SPARSE(rocsparse_create_mat_descr(&description));
}

static void destroy(void)
{
	SPARSE(rocsparse_destroy_mat_descr(description));
	HIP(hipFree(m.gpu_starts));
	HIP(hipFree(m.gpu_columns));
	HIP(hipFree(m.gpu_values));
}

static void expect(const float *gpu, const float *wanted, size_t count)
{
	static float got[MOST];

	HIP(hipDeviceSynchronize());
	HIP(hipMemcpy(got, gpu, count * sizeof(float), hipMemcpyDeviceToHost));
	for (size_t i = 0; i < count; i++) {
		if (got[i] != wanted[i]) {
			case_failed("element %zu is %g, not %g", i, got[i], wanted[i]);
			return;
		}
	}
}

/* y = 3 M x - y, and the same for the transposed matrix. */
static void product_with(rocsparse_operation operation)
{
	const float alpha = 3, beta = -1;
	int transposed = operation == rocsparse_operation_transpose;
	float x[ROWS], y[ROWS], *gpu_x, *gpu_y;

	create(0);
	for (int i = 0; i < ROWS; i++) {
		x[i] = small();
		y[i] = small();
	}
	gpu_x = copy(x, sizeof(x));
	gpu_y = copy(y, sizeof(y));
	SPARSE(rocsparse_scsrmv(handle, operation, ROWS, COLUMNS, m.count, &alpha, description, m.gpu_values,
				m.gpu_starts, m.gpu_columns, NULL, gpu_x, &beta, gpu_y));
	for (int i = 0; i < (transposed ? COLUMNS : ROWS); i++)
		y[i] *= beta;
	for (rocsparse_int i = 0; i < ROWS; i++)
		for (rocsparse_int n = m.starts[i]; n < m.starts[i + 1]; n++)
			y[transposed ? m.columns[n] : i] +=
				alpha * m.values[n] * x[transposed ? i : m.columns[n]];
	expect(gpu_y, y, ROWS);
	HIP(hipFree(gpu_x));
	HIP(hipFree(gpu_y));
	destroy();
}

static void product_with_vector(void)
{
	product_with(rocsparse_operation_none);
}

static void product_with_vector_transposed(void)
{
	product_with(rocsparse_operation_transpose);
}

static void product_with_matrix(void)
{
	const float alpha = 2, beta = 1;
	static float b[LD * DENSE], c[LD_OUT * DENSE];
	float *gpu_b, *gpu_c;

	create(0);
	for (size_t i = 0; i < ARRAY_SIZE(b); i++)
		b[i] = small();
	for (size_t i = 0; i < ARRAY_SIZE(c); i++)
		c[i] = small();
	gpu_b = copy(b, sizeof(b));
	gpu_c = copy(c, sizeof(c));
	SPARSE(rocsparse_scsrmm(handle, rocsparse_operation_none, rocsparse_operation_none, ROWS, DENSE, COLUMNS,
				m.count, &alpha, description, m.gpu_values, m.gpu_starts, m.gpu_columns, gpu_b, LD,
				&beta, gpu_c, LD_OUT));
	for (int column = 0; column < DENSE; column++)
		for (rocsparse_int i = 0; i < ROWS; i++)
			for (rocsparse_int n = m.starts[i]; n < m.starts[i + 1]; n++)
				c[column * LD_OUT + i] += alpha * m.values[n] * b[column * LD + m.columns[n]];
	expect(gpu_c, c, ARRAY_SIZE(c));
	HIP(hipFree(gpu_b));
	HIP(hipFree(gpu_c));
	destroy();
}

/* Waves wait for the results of others, row by row. */
static void triangular_system(void)
{
	const float one = 1;
	float x[COLUMNS], y[COLUMNS] = { 0 }, *gpu_x, *gpu_y;
	rocsparse_mat_info info;
	size_t size;
	void *work;

	create(1);
	SPARSE(rocsparse_set_mat_fill_mode(description, rocsparse_fill_mode_lower));
	SPARSE(rocsparse_set_mat_diag_type(description, rocsparse_diag_type_unit));
	SPARSE(rocsparse_create_mat_info(&info));
	for (int i = 0; i < COLUMNS; i++)
		x[i] = small();
	for (rocsparse_int i = 0; i < COLUMNS; i++)
		for (rocsparse_int n = m.starts[i]; n < m.starts[i + 1]; n++)
			y[i] += m.values[n] * x[m.columns[n]];
	gpu_y = copy(y, sizeof(y));
	HIP(hipMalloc((void **)&gpu_x, sizeof(x)));
	SPARSE(rocsparse_scsrsv_buffer_size(handle, rocsparse_operation_none, COLUMNS, m.count, description,
					    m.gpu_values, m.gpu_starts, m.gpu_columns, info, &size));
	HIP(hipMalloc(&work, size));
	SPARSE(rocsparse_scsrsv_analysis(handle, rocsparse_operation_none, COLUMNS, m.count, description,
					 m.gpu_values, m.gpu_starts, m.gpu_columns, info,
					 rocsparse_analysis_policy_force, rocsparse_solve_policy_auto, work));
	SPARSE(rocsparse_scsrsv_solve(handle, rocsparse_operation_none, COLUMNS, m.count, &one, description,
				      m.gpu_values, m.gpu_starts, m.gpu_columns, info, gpu_y, gpu_x,
				      rocsparse_solve_policy_auto, work));
	expect(gpu_x, x, COLUMNS);
	SPARSE(rocsparse_destroy_mat_info(info));
	HIP(hipFree(work));
	HIP(hipFree(gpu_x));
	HIP(hipFree(gpu_y));
	destroy();
}

/* The transposed matrix has its values in the order of a stable sort by column. */
static void transposition(void)
{
	rocsparse_int *gpu_rows, *gpu_starts;
	static float wanted[MOST];
	float *gpu_values;
	rocsparse_int found = 0;
	size_t size;
	void *work;

	create(0);
	HIP(hipMalloc((void **)&gpu_rows, MOST * sizeof(*gpu_rows)));
	HIP(hipMalloc((void **)&gpu_starts, (COLUMNS + 1) * sizeof(*gpu_starts)));
	HIP(hipMalloc((void **)&gpu_values, MOST * sizeof(*gpu_values)));
	SPARSE(rocsparse_csr2csc_buffer_size(handle, ROWS, COLUMNS, m.count, m.gpu_starts, m.gpu_columns,
					     rocsparse_action_numeric, &size));
	HIP(hipMalloc(&work, size));
	SPARSE(rocsparse_scsr2csc(handle, ROWS, COLUMNS, m.count, m.gpu_values, m.gpu_starts, m.gpu_columns,
				  gpu_values, gpu_rows, gpu_starts, rocsparse_action_numeric,
				  rocsparse_index_base_zero, work));
	for (rocsparse_int column = 0; column < COLUMNS; column++)
		for (rocsparse_int n = 0; n < m.count; n++)
			if (m.columns[n] == column)
				wanted[found++] = m.values[n];
	expect(gpu_values, wanted, (size_t)found);
	HIP(hipFree(work));
	HIP(hipFree(gpu_rows));
	HIP(hipFree(gpu_starts));
	HIP(hipFree(gpu_values));
	destroy();
}

static const struct one_case cases[] = {
	{ "product_with_vector", product_with_vector },
	{ "product_with_vector_transposed", product_with_vector_transposed },
	{ "product_with_matrix", product_with_matrix },
	{ "triangular_system", triangular_system },
	{ "transposition", transposition },
};

int main(int argc, char **argv)
{
	return cases_main(argc, argv, "rocsparse", cases, ARRAY_SIZE(cases), 600);
}
