// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests CU masks, and the CUs and XCCs on which the workgroups of a dispatch run. */
#define _GNU_SOURCE
#include "fixture.h"

static int set_mask(struct kfd_queue *q, uint32_t count, const uint32_t *words)
{
	struct kfd_ioctl_set_cu_mask_args args = { .queue_id = q->id,
						   .num_cu_mask = count,
						   .cu_mask_ptr = kfd_va(words) };

	return kfd_ioctl(q->k->fd, AMDKFD_IOC_SET_CU_MASK, &args);
}

/*
 * Sets a CU mask of `length` bits with units `first` to `first + count - 1` of each XCC: CUs, or
 * WGPs of gfx12, each a pair of bits. The bits are dealt to the XCCs in turn; without a CU on one
 * of them, dispatches never end.
 */
static int set_units(struct fixture *f, uint32_t length, unsigned int first, unsigned int count)
{
	unsigned int bits = f->k.node.num_xcc * (is_gfx12(&f->k.node) ? 2 : 1);
	uint32_t words[32] = { 0 };

	for (unsigned int n = first * bits; n < (first + count) * bits; n++)
		words[n / 32] |= 1u << n % 32;
	return set_mask(&f->q, length, words);
}

/* A CU mask restricts a queue, which works with it. */
TEST(mask_and_arguments)
{
	uint32_t words[64];
	struct fixture f;

	fixture_launch(&f);
	EXPECT_OK(set_units(&f, 64, 0, 4));
	EXPECT(fixture_works(&f));
	memset(words, 0xff, sizeof(words));
	EXPECT_OK(set_mask(&f.q, 32, words));
	EXPECT(fixture_works(&f));
	/* Bits beyond 1024 are ignored. */
	EXPECT_OK(set_mask(&f.q, 2048, words));
	EXPECT(fixture_works(&f));
	EXPECT_RET(set_mask(&f.q, 33, words), -EINVAL);
	EXPECT_RET(set_mask(&f.q, 32, NULL), -EFAULT);
	EXPECT(fixture_works(&f));
}

/* CUs, or WGPs of gfx12, on which the workgroups of a dispatch ran, on all XCCs. */
struct units {
	unsigned int count;
	uint32_t engines;
};

/* Runs workgroups of a kernel that stores a value for each. */
static void run_groups(struct fixture *f, const char *name, unsigned int groups)
{
	const uint32_t grid[3] = { groups * 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	uint64_t at = kfd_va(f->data->va);
	struct aql_dispatch packet;
	struct kfd_kernel kernel;

	ASSERT_OK(fixture_kernel(f, name, &kernel));
	memcpy(f->kernarg->va, &at, 8);
	f->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, f->kernarg->va, &f->signal);
	kfd_queue_ring(&f->q, kfd_queue_write(&f->q, &packet));
	ASSERT_OK(kfd_signal_wait(&f->k, &f->signal, WAIT_MS));
}

static struct units units_used(struct fixture *f)
{
	const unsigned int groups = 128 * f->k.node.num_xcc;
	const uint32_t *ids = f->data->va;
	struct units units = { 0 };
	uint32_t seen[1024];

	run_groups(f, "hw_id", groups);
	for (unsigned int i = 0; i < groups; i++) {
		bool gfx12 = is_gfx12(&f->k.node);
		uint32_t engine = ids[i] >> (gfx12 ? 18 : 13) & 7;
		/* XCC (in turn), engine, array, and CU or WGP of the array. */
		uint32_t unit = i % f->k.node.num_xcc << 16 | engine << 8 |
				(ids[i] >> (gfx12 ? 16 : 12) & 1) << 4 |
				(ids[i] >> (gfx12 ? 10 : 8) & 0xf);
		unsigned int n = 0;

		while (n < units.count && seen[n] != unit)
			n++;
		if (n == units.count)
			seen[units.count++] = unit;
		units.engines |= 1u << engine;
	}
	return units;
}

/* Waves run on the CUs of the mask only, which are spread over the shader engines. */
TEST(waves_run_on_the_mask)
{
	struct units units;
	struct fixture f;

	fixture_launch(&f);
	units = units_used(&f);
	EXPECT(units.count > 16, "%u units", units.count);
	for (unsigned int n = 1; n <= 4; n++) {
		ASSERT_OK(set_units(&f, 1024, 0, n));
		units = units_used(&f);
		EXPECT_EQ(units.count, n * f.k.node.num_xcc);
		EXPECT_EQ(__builtin_popcount(units.engines), n);
	}
	/* The second CU of each engine. */
	ASSERT_OK(set_units(&f, 1024, 4, 4));
	units = units_used(&f);
	EXPECT_EQ(units.count, 4 * f.k.node.num_xcc);
}

/* The workgroups of a dispatch are distributed over all XCCs of the node in equal parts. */
TEST(workgroups_are_distributed_over_xccs)
{
	enum { EACH = 64 };
	unsigned int groups[16] = { 0 };
	const uint32_t *ids;
	struct fixture f;

	fixture_launch(&f);
	if (f.k.node.num_xcc == 1)
		SKIP("the node has one XCC");
	ids = f.data->va;
	run_groups(&f, "xcc_id", EACH * f.k.node.num_xcc);
	for (unsigned int i = 0; i < EACH * f.k.node.num_xcc; i++)
		groups[ids[i] & 15]++;
	for (unsigned int n = 0; n < 16; n++)
		EXPECT(!groups[n] || groups[n] == EACH, "XCC %u: %u workgroups", n, groups[n]);
}
