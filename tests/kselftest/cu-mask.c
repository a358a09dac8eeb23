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

/* Sets a CU mask that gives XCC `n` the CUs of `masks[n]`. */
static int set_masks(struct fixture *f, const uint32_t *masks)
{
	const unsigned int xccs = f->k.node.num_xcc;
	uint32_t words[32] = { 0 };

	for (unsigned int n = 0; n < 32 * xccs; n++)
		if (masks[n % xccs] >> n / xccs & 1)
			words[n / 32] |= 1u << n % 32;
	return set_mask(&f->q, 32 * xccs, words);
}

/* Numbers the XCCs of the first workgroups, which take turns, from 0 on by their physical ids. */
static void number_xccs(struct fixture *f, unsigned int *numbers)
{
	const unsigned int xccs = f->k.node.num_xcc;
	const uint32_t *ids = f->data->va;

	run_groups(f, "xcc_id", xccs);
	for (unsigned int i = 0; i < xccs; i++) {
		numbers[i] = 0;
		for (unsigned int j = 0; j < xccs; j++)
			numbers[i] += ids[j] < ids[i];
	}
}

/* Each XCC has the CUs of its own bits of a mask, also if these differ. */
TEST(masks_of_xccs_differ)
{
	unsigned int numbers[16];
	uint32_t masks[16];
	struct fixture f;

	fixture_launch(&f);
	if (f.k.node.num_xcc == 1)
		SKIP("the node has one XCC");
	number_xccs(&f, numbers);
	/* XCC n has one CU, of engine n % 4, then n + 1 CUs. */
	for (unsigned int round = 0; round < 2; round++) {
		const unsigned int xccs = f.k.node.num_xcc, groups = 64 * xccs;
		struct {
			uint32_t engines, cus[8];
		} used[16] = { 0 };
		const uint32_t *ids = f.data->va;

		for (unsigned int n = 0; n < xccs; n++)
			masks[n] = round ? (2u << n) - 1 : 1u << n % 4;
		ASSERT_OK(set_masks(&f, masks));
		run_groups(&f, "hw_id", groups);
		for (unsigned int i = 0; i < groups; i++) {
			unsigned int n = numbers[i % xccs], engine = ids[i] >> 13 & 7;

			used[n].engines |= 1u << engine;
			used[n].cus[engine] |= 1u << (ids[i] >> 8 & 15);
		}
		for (unsigned int n = 0; n < xccs; n++) {
			unsigned int count = 0;

			for (unsigned int e = 0; e < 8; e++)
				count += (unsigned int)__builtin_popcount(used[n].cus[e]);
			EXPECT_EQ(count, (unsigned int)__builtin_popcount(masks[n]));
			EXPECT_EQ(used[n].engines, masks[n] & 15);
		}
	}
}
