// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Algorithms of rocPRIM, hipCUB and rocThrust on the GPU, compared with those of the C++ library:
 * sums, prefix sums and sorted sequences of integers, which are exact.
 */
#include "lib/hip-cases.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include <hipcub/hipcub.hpp>
#include <rocprim/rocprim.hpp>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>

/* More than a workgroup sorts by itself, and no multiple of its size. */
#define COUNT 20011u

/* Memory of the GPU for `count` elements. */
template <typename T> struct Device {
	T *data = nullptr;
	size_t count;

	explicit Device(size_t count) : count(count)
	{
		HIP(hipMalloc((void **)&data, std::max<size_t>(count * sizeof(T), 1)));
	}
	explicit Device(const std::vector<T> &from) : Device(from.size())
	{
		HIP(hipMemcpy(data, from.data(), count * sizeof(T), hipMemcpyHostToDevice));
	}
	Device(const Device &) = delete;
	~Device()
	{
		HIP(hipFree(data));
	}

	std::vector<T> read() const
	{
		std::vector<T> to(count);

		HIP(hipMemcpy(to.data(), data, count * sizeof(T), hipMemcpyDeviceToHost));
		return to;
	}
};

/* Calls an algorithm twice: it returns the size of its temporary memory, and then runs. */
template <typename F> static void run(F algorithm)
{
	size_t size = 0;

	HIP(algorithm(nullptr, size));
	Device<char> temporary(size);
	HIP(algorithm(temporary.data, size));
	HIP(hipDeviceSynchronize());
}

template <typename T> static void expect_equal(const std::vector<T> &got, const std::vector<T> &wanted)
{
	auto differ = std::mismatch(wanted.begin(), wanted.end(), got.begin(), got.end());

	if (got.size() != wanted.size())
		case_failed("%zu elements, not %zu", got.size(), wanted.size());
	else if (differ.first != wanted.end())
		case_failed("element %zu is wrong", (size_t)(differ.first - wanted.begin()));
}

static std::vector<uint32_t> numbers()
{
	std::vector<uint32_t> numbers(COUNT);
	uint32_t state = 1;

	for (uint32_t &number : numbers)
		number = state = state * 1664525u + 1013904223u;
	return numbers;
}

static void rocprim_scan()
{
	std::vector<uint32_t> from = numbers(), wanted(COUNT);
	Device<uint32_t> in(from), out(COUNT);

	std::exclusive_scan(from.begin(), from.end(), wanted.begin(), 7u);
	run([&](void *temporary, size_t &size) {
		return rocprim::exclusive_scan(temporary, size, in.data, out.data, 7u, COUNT,
					       rocprim::plus<uint32_t>());
	});
	expect_equal(out.read(), wanted);
}

static void rocprim_reduce()
{
	std::vector<uint32_t> from = numbers();
	Device<uint32_t> in(from), out(1);

	run([&](void *temporary, size_t &size) {
		return rocprim::reduce(temporary, size, in.data, out.data, 0u, COUNT,
				       rocprim::maximum<uint32_t>());
	});
	expect_equal(out.read(), { *std::max_element(from.begin(), from.end()) });
}

static void rocprim_sort()
{
	std::vector<uint32_t> keys = numbers(), values(COUNT), order(COUNT), wanted;
	Device<uint32_t> keys_out(COUNT), values_out(COUNT);

	/* Few different keys: the sort has to be stable. */
	for (uint32_t &key : keys)
		key >>= 20;
	std::iota(values.begin(), values.end(), 0u);
	Device<uint32_t> keys_in(keys), values_in(values);
	order = values;
	std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
	run([&](void *temporary, size_t &size) {
		return rocprim::radix_sort_pairs(temporary, size, keys_in.data, keys_out.data, values_in.data,
						 values_out.data, COUNT);
	});
	expect_equal(values_out.read(), order);
	for (uint32_t at : order)
		wanted.push_back(keys[at]);
	expect_equal(keys_out.read(), wanted);
}

static void rocprim_sort_of_128_bits()
{
	std::vector<uint32_t> from = numbers();
	std::vector<__uint128_t> keys, wanted;

	for (size_t i = 0; i + 4 <= 4096; i += 4)
		keys.push_back((__uint128_t)((uint64_t)from[i] << 32 | from[i + 1]) << 64 |
			       (uint64_t)from[i + 2] << 32 | from[i + 3]);
	Device<__uint128_t> in(keys), out(keys.size());
	wanted = keys;
	std::sort(wanted.begin(), wanted.end());
	run([&](void *temporary, size_t &size) {
		return rocprim::radix_sort_keys(temporary, size, in.data, out.data, keys.size());
	});
	expect_equal(out.read(), wanted);
}

static void hipcub_histogram()
{
	std::vector<uint32_t> from = numbers(), wanted(64);
	Device<uint32_t> out(64);

	for (uint32_t &number : from) {
		number >>= 26;
		wanted[number]++;
	}
	Device<uint32_t> in(from);
	run([&](void *temporary, size_t &size) {
		return hipcub::DeviceHistogram::HistogramEven(temporary, size, in.data, out.data, 65, 0u, 64u,
							      COUNT);
	});
	expect_equal(out.read(), wanted);
}

static void hipcub_runs()
{
	std::vector<uint32_t> from = numbers(), keys, lengths;
	Device<uint32_t> keys_out(COUNT), lengths_out(COUNT), runs_out(1);

	for (size_t i = 0; i < COUNT; i++) {
		from[i] >>= 30;
		if (i && from[i] == from[i - 1]) {
			lengths.back()++;
		} else {
			keys.push_back(from[i]);
			lengths.push_back(1);
		}
	}
	Device<uint32_t> in(from);
	run([&](void *temporary, size_t &size) {
		return hipcub::DeviceRunLengthEncode::Encode(temporary, size, in.data, keys_out.data,
							     lengths_out.data, runs_out.data, COUNT);
	});
	expect_equal(runs_out.read(), { (uint32_t)keys.size() });
	auto got_keys = keys_out.read(), got_lengths = lengths_out.read();
	got_keys.resize(keys.size());
	got_lengths.resize(lengths.size());
	expect_equal(got_keys, keys);
	expect_equal(got_lengths, lengths);
}

static void rocthrust_sort()
{
	std::vector<uint32_t> from = numbers(), wanted = from;
	thrust::device_vector<uint32_t> device(from.begin(), from.end());

	std::sort(wanted.begin(), wanted.end(), std::greater<uint32_t>());
	thrust::sort(device.begin(), device.end(), thrust::greater<uint32_t>());
	thrust::copy(device.begin(), device.end(), from.begin());
	expect_equal(from, wanted);
}

struct Square {
	__host__ __device__ uint64_t operator()(uint32_t x) const
	{
		return (uint64_t)x * x;
	}
};

static void rocthrust_sum_of_squares()
{
	std::vector<uint32_t> from = numbers();
	thrust::device_vector<uint32_t> device(from.begin(), from.end());
	uint64_t wanted = 0, sum;

	for (uint32_t number : from)
		wanted += (uint64_t)number * number;
	sum = thrust::transform_reduce(device.begin(), device.end(), Square(), (uint64_t)0,
				       thrust::plus<uint64_t>());
	if (sum != wanted)
		case_failed("the sum is %#jx, not %#jx", (uintmax_t)sum, (uintmax_t)wanted);
}

static const struct one_case cases[] = {
	{ "rocprim_scan", rocprim_scan },
	{ "rocprim_reduce", rocprim_reduce },
	{ "rocprim_sort", rocprim_sort },
	{ "rocprim_sort_of_128_bits", rocprim_sort_of_128_bits },
	{ "hipcub_histogram", hipcub_histogram },
	{ "hipcub_runs", hipcub_runs },
	{ "rocthrust_sort", rocthrust_sort },
	{ "rocthrust_sum_of_squares", rocthrust_sum_of_squares },
};

int main(int argc, char **argv)
{
	return cases_main(argc, argv, "algorithms", cases, ARRAY_SIZE(cases), 600);
}
