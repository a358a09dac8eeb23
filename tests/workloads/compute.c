// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests small kernels of each kind on a queue of /dev/kfd, checked against the CPU. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "../kselftest/ktap.h"
#include "kfd.h"

#define WAIT_MS 30000u
#define WORDS 65536u

struct gpu {
	struct kfd k;
	struct kfd_queue q;
	struct kfd_code code;
	struct kfd_signal signal;
	struct kfd_bo *in, *out, *kernarg;
	uint32_t *from, *to;
};

static uint32_t noise(uint32_t i)
{
	i = (i ^ 61) ^ (i >> 16);
	i *= 9;
	i ^= i >> 4;
	i *= 0x27d4eb2d;
	return i ^ i >> 15;
}

/* Opens the GPU with 1 MiB of noise as input and 1 MiB of output; `vram` selects their domain. */
static void start(struct gpu *g, bool vram)
{
	uint32_t flags;

	memset(g, 0, sizeof(*g));
	ASSERT_OK(kfd_open(&g->k));
	flags = vram && g->k.node.large_bar ? KFD_FLAGS_VRAM : KFD_FLAGS_GTT;
	ASSERT_OK(kfd_queue_create(&g->k, &g->q, 256));
	ASSERT_OK(kfd_kernels(&g->k, &g->code));
	ASSERT_OK(kfd_signal_create(&g->k, 0, &g->signal));
	ASSERT_OK(kfd_bo_create(&g->k, 1 << 20, flags, &g->in));
	ASSERT_OK(kfd_bo_create(&g->k, 1 << 20, flags, &g->out));
	ASSERT_OK(kfd_bo_create(&g->k, 4096, KFD_FLAGS_GTT, &g->kernarg));
	g->from = g->in->va;
	g->to = g->out->va;
	for (uint32_t i = 0; i < (1 << 20) / 4; i++)
		g->from[i] = noise(i);
}

static void run3(struct gpu *g, const char *name, const void *args, size_t size,
		 const uint32_t grid[3], const uint16_t group[3])
{
	struct aql_dispatch packet;
	struct kfd_kernel kernel;

	ASSERT(kfd_code_kernel(&g->code, name, &kernel) == 0, "no kernel %s", name);
	memcpy(g->kernarg->va, args, size);
	/* Input and code may be in VRAM. */
	ASSERT_OK(kfd_hdp_flush(&g->k));
	g->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, g->kernarg->va, &g->signal);
	kfd_queue_ring(&g->q, kfd_queue_write(&g->q, &packet));
	ASSERT(kfd_signal_wait(&g->k, &g->signal, WAIT_MS) == 0,
	       "kernel %s timed out; error word %#llx", name,
	       (unsigned long long)g->q.inactive.s->value);
}

static void run(struct gpu *g, const char *name, const void *args, size_t size, uint32_t items,
		uint16_t items_of_group)
{
	run3(g, name, args, size, (const uint32_t[3]){ items, 1, 1 },
	     (const uint16_t[3]){ items_of_group, 1, 1 });
}

static void run2(struct gpu *g, const char *name, uint32_t items, uint16_t group)
{
	const uint64_t args[2] = { kfd_va(g->from), kfd_va(g->to) };

	run(g, name, args, sizeof(args), items, group);
}

#define CHECK_ALL(count, expression)                                                            \
	do {                                                                                    \
		for (uint32_t i = 0; i < (count); i++) {                                        \
			uint32_t want_ = (expression);                                          \
			ASSERT(g.to[i] == want_, "element %u: expected %#x, got %#x", i, want_, \
			       g.to[i]);                                                        \
		}                                                                               \
	} while (0)

TEST(copy)
{
	struct gpu g;

	start(&g, false);
	run2(&g, "copy", WORDS, 256);
	CHECK_ALL(WORDS, g.from[i]);
	EXPECT_EQ(g.to[WORDS], 0);
}

TEST(copy_in_vram)
{
	struct gpu g;

	start(&g, true);
	run2(&g, "copy", WORDS, 256);
	CHECK_ALL(WORDS, g.from[i]);
	EXPECT_EQ(g.to[WORDS], 0);
}

TEST(copy_16_bytes_per_item)
{
	struct gpu g;

	start(&g, true);
	run2(&g, "copy16", WORDS / 4, 128);
	CHECK_ALL(WORDS, g.from[i]);
	EXPECT_EQ(g.to[WORDS], 0);
}

TEST(copy_bytes)
{
	struct gpu g;

	start(&g, false);
	run2(&g, "copy_bytes", 10001, 64);
	EXPECT(!memcmp(g.from, g.to, 10001));
	EXPECT_EQ(((unsigned char *)g.to)[10001], 0);
}

/* Grids that are no multiple of the workgroup size, workgroups that are no multiple of the wave. */
TEST(fill_grid_shapes)
{
	static const struct {
		uint32_t items;
		uint16_t group;
	} shapes[] = { { 1, 1 },      { 1, 64 },     { 63, 64 },     { 64, 64 },     { 65, 64 },
		       { 100, 33 },   { 1000, 256 }, { 1023, 1024 }, { 1024, 1024 }, { 2050, 1024 },
		       { 4096, 100 }, { 7, 3 },	     { 65536, 192 } };
	struct gpu g;

	start(&g, false);
	for (uint32_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		struct {
			uint64_t to;
			uint32_t value;
		} args = { kfd_va(g.to), 0xf111 + s };

		memset(g.to, 0, (WORDS + 64) * 4);
		run(&g, "fill", &args, sizeof(args), shapes[s].items, shapes[s].group);
		CHECK_ALL(shapes[s].items, 0xf111 + s);
		for (uint32_t i = 0; i < 64; i++)
			ASSERT(g.to[shapes[s].items + i] == 0,
			       "%u items in groups of %u: element %u was written", shapes[s].items,
			       shapes[s].group, shapes[s].items + i);
	}
}

TEST(saxpy)
{
	struct gpu g;
	float *x, *y, a = 2.5f, before[4096];
	struct {
		uint64_t x, y;
		float a;
	} args;

	start(&g, true);
	x = g.in->va;
	y = g.out->va;
	for (int i = 0; i < 4096; i++) {
		x[i] = (float)(i - 2000) * 0.37f;
		y[i] = before[i] = (float)i * 1.13f;
	}
	args.x = kfd_va(x);
	args.y = kfd_va(y);
	args.a = a;
	run(&g, "saxpy", &args, sizeof(args), 4096, 256);
	for (int i = 0; i < 4096; i++)
		ASSERT(y[i] == fmaf(a, x[i], before[i]), "element %d: expected %.9g, got %.9g", i,
		       fmaf(a, x[i], before[i]), y[i]);
}

/* LDS and barriers across the waves of a workgroup. */
TEST(reduce)
{
	struct gpu g;

	start(&g, true);
	run2(&g, "reduce", WORDS, 256);
	for (uint32_t i = 0; i < WORDS / 256; i++) {
		uint32_t sum = 0;

		for (uint32_t n = 0; n < 256; n++)
			sum += g.from[i * 256 + n];
		ASSERT(g.to[i] == sum, "group %u: expected %#x, got %#x", i, sum, g.to[i]);
	}
}

TEST(reverse_through_lds)
{
	struct gpu g;

	start(&g, false);
	run2(&g, "reverse", WORDS, 256);
	CHECK_ALL(WORDS, g.from[(i & ~255u) + 255 - (i & 255)]);
}

TEST(atomics)
{
	const uint32_t items = 20000;
	uint32_t bins[16] = { 0 }, largest = 0, *b, *largest_to, *tally, *next, *ticket;
	uint64_t sum = 0, *sum_to;
	static unsigned char seen[20000];
	struct gpu g;

	start(&g, false);
	for (uint32_t i = 0; i < items; i++) {
		bins[g.from[i] & 15]++;
		largest = g.from[i] > largest ? g.from[i] : largest;
		sum += (uint64_t)g.from[i] * 0x10001ull;
	}
	b = g.to;
	largest_to = g.to + 32;
	sum_to = (uint64_t *)(g.to + 64);
	tally = g.to + 96;
	next = g.to + 128;
	ticket = g.to + 1024;
	{
		const uint64_t args[7] = { kfd_va(g.from), kfd_va(b),	  kfd_va(largest_to),
					   kfd_va(sum_to), kfd_va(tally), kfd_va(next),
					   kfd_va(ticket) };

		run(&g, "atomics", args, sizeof(args), items, 160);
	}
	for (int i = 0; i < 16; i++)
		EXPECT_EQ(b[i], bins[i]);
	EXPECT_EQ(*largest_to, largest);
	EXPECT_EQ(*sum_to, sum);
	EXPECT_EQ(*tally, (items + 15) / 16 * 3);
	EXPECT_EQ(*next, items);
	for (uint32_t i = 0; i < items; i++) {
		ASSERT(ticket[i] < items, "ticket %u", i);
		ASSERT(!seen[ticket[i]], "item %u has a duplicate ticket", ticket[i]);
		seen[ticket[i]] = 1;
	}
}

static uint32_t divergent_on_cpu(uint32_t v, uint32_t i)
{
	uint32_t r = 0;

	if (v & 1) {
		r = v & 2 ? v * 3 + 1 : v ^ 0x5a5a5a5a;
		for (uint32_t n = 0; n < (v & 31); n++) {
			if ((n ^ i) & 4)
				continue;
			r += n * n;
			if (r > 0xf0000000u)
				break;
		}
		return r;
	}
	while (v > 1) {
		v = v & 1 ? v * 3 + 1 : v >> 1;
		if (++r > 200)
			break;
	}
	return r;
}

TEST(divergent_branches)
{
	struct gpu g;

	start(&g, false);
	run2(&g, "divergent", 8192, 192);
	CHECK_ALL(8192, divergent_on_cpu(g.from[i], i));
}

static uint32_t loops_on_cpu(uint32_t r, uint32_t rounds, uint32_t divisor)
{
	for (uint32_t n = 0; n < rounds; n++)
		for (uint32_t m = 0; m <= n; m++)
			r = r * 1664525u + 1013904223u + m;
	return r / divisor + r % divisor;
}

TEST(loops_and_division)
{
	static const uint32_t divisors[] = { 1, 3, 7, 1000, 65537, 0x80000001, 0xffffffff };
	struct gpu g;

	start(&g, false);
	for (uint32_t d = 0; d < sizeof(divisors) / sizeof(divisors[0]); d++) {
		struct {
			uint64_t from, to;
			uint32_t rounds, divisor;
		} args = { kfd_va(g.from), kfd_va(g.to), 1 + d * 3, divisors[d] };

		run(&g, "loops", &args, sizeof(args), 2000, 128);
		CHECK_ALL(2000, loops_on_cpu(g.from[i], args.rounds, args.divisor));
	}
}

/*
 * Three dimensions, none a multiple of the workgroup size: each element once, by the right
 * work-item.
 */
TEST(grid_3d)
{
	static const uint32_t grids[][3] = { { 8, 4, 2 },  { 21, 10, 5 }, { 1, 1, 3 },
					     { 40, 1, 1 }, { 3, 9, 2 },	  { 64, 16, 7 } };
	const uint16_t group[3] = { 8, 4, 2 };
	struct gpu g;

	start(&g, false);
	for (uint32_t n = 0; n < sizeof(grids) / sizeof(grids[0]); n++) {
		const uint32_t *grid = grids[n], total = grid[0] * grid[1] * grid[2];
		const uint64_t args[1] = { kfd_va(g.to) };

		memset(g.to, 0, (total + 256) * 4);
		run3(&g, "grid3d", args, sizeof(args), grid, group);
		CHECK_ALL(total, i % grid[0] | i / grid[0] % grid[1] << 8 |
					 i / grid[0] / grid[1] << 16 | 1u << 24);
		for (uint32_t i = total; i < total + 256; i++)
			ASSERT(g.to[i] == 0, "grid %u: element %u beyond the end was written", n,
			       i);
	}
}

static uint32_t scratch_on_cpu(uint32_t v)
{
	uint32_t mine[64], r = 0;

	for (uint32_t n = 0; n < 64; n++)
		mine[n] = v + n * 7;
	for (uint32_t n = 0; n < 64; n++)
		mine[(n * 5 + v) & 63] ^= mine[n] << 1;
	for (uint32_t n = 0; n < 64; n++)
		r = r * 31 + mine[n];
	return r;
}

TEST(scratch_memory)
{
	struct gpu g;

	start(&g, false);
	ASSERT_OK(kfd_queue_set_scratch(&g.q, 1024));
	run2(&g, "scratch", 8192, 256);
	CHECK_ALL(8192, scratch_on_cpu(g.from[i]));
	run2(&g, "scratch", 100, 33);
	CHECK_ALL(8192, scratch_on_cpu(g.from[i]));
}

/* Dispatch timestamps, for profilers. */
TEST(dispatch_timestamps)
{
	struct gpu g;

	start(&g, false);
	/* ENABLE_PROFILING: bit 3 of the queue properties. */
	g.q.q->queue_properties |= 1u << 3;
	run2(&g, "copy", WORDS, 256);
	EXPECT(g.signal.s->start_ts != 0);
	EXPECT(g.signal.s->end_ts >= g.signal.s->start_ts, "%llu before %llu",
	       (unsigned long long)g.signal.s->end_ts, (unsigned long long)g.signal.s->start_ts);
}

TEST_TIMEOUT(hundred_dispatches, 120)
{
	struct gpu g;

	start(&g, true);
	for (uint32_t n = 0; n < 100; n++) {
		struct {
			uint64_t to;
			uint32_t value;
		} args = { kfd_va(g.to), n };

		run(&g, "fill", &args, sizeof(args), 4096, 256);
		CHECK_ALL(4096, n);
	}
}
