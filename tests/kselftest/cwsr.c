// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests that waves are saved and restored: the results of kernels that are preempted many times,
 * and the save area as debuggers read it (GET_QUEUE_WAVE_STATE).
 */
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "waves.h"

/* Preemptions of each kernel. */
#define PREEMPTIONS 1000
/* Work-items; workgroups have 256. */
#define ITEMS 2048
#define GROUP 256
/* Rounds of a dispatch: some hundred preemptions fit in. */
#define ROUNDS 2000

static void mix_on_cpu(const uint32_t *in, uint32_t *out)
{
	static uint32_t word[GROUP][24];

	for (uint32_t l = 0; l < GROUP; l++)
		for (uint32_t m = 0; m < 24; m++)
			word[l][m] = in[l] + m * 0x9e3779b9u;
	for (uint32_t n = 0; n < ROUNDS; n++) {
		uint32_t last[GROUP];

		for (uint32_t l = 0; l < GROUP; l++)
			last[l] = word[l][23];
		for (uint32_t l = 0; l < GROUP; l++) {
			uint32_t other = last[(l + 64 + n) % GROUP];

			if ((l ^ n) & 4)
				other = other << 7 | other >> 25;
			memmove(&word[l][1], &word[l][0], 23 * sizeof(uint32_t));
			word[l][0] = last[l] * 1664525u + other;
		}
	}
	for (uint32_t l = 0; l < GROUP; l++) {
		out[l] = 0;
		for (uint32_t m = 0; m < 24; m++)
			out[l] = out[l] * 31 + word[l][m];
	}
}

static void mix_private_on_cpu(const uint32_t *in, uint32_t *out)
{
	for (uint32_t l = 0; l < GROUP; l++) {
		uint32_t word[16], r = in[l];

		for (uint32_t m = 0; m < 16; m++)
			word[m] = r + m * 0x9e3779b9u;
		for (uint32_t n = 0; n < ROUNDS; n++) {
			r = r * 1664525u + word[(n + r) & 15];
			word[n & 15] = r;
		}
		out[l] = r ^ word[3];
	}
}

/* Unmaps the queue, and maps it again unless its share is 0. */
static void update(struct fixture *f, uint32_t percent)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = kfd_va(f->q.ring->va),
		.queue_id = f->q.id,
		.ring_size = f->q.packets * 64,
		.queue_percentage = percent,
		.queue_priority = 7,
	};

	ASSERT_OK(kfd_ioctl(f->k.fd, AMDKFD_IOC_UPDATE_QUEUE, &args));
}

/* Runs a kernel until it was preempted often enough, and compares each of its results. */
static void preempt_kernel(const char *name, void (*on_cpu)(const uint32_t *, uint32_t *))
{
	const uint32_t grid[3] = { ITEMS, 1, 1 };
	const uint16_t group[3] = { GROUP, 1, 1 };
	static uint32_t want[ITEMS];
	unsigned int preemptions = 0, dispatches = 0;
	struct aql_dispatch packet;
	struct kfd_kernel kernel;
	uint32_t *in, *out;
	struct fixture f;
	struct {
		uint64_t in, out;
		uint32_t rounds;
	} args;

	fixture_launch(&f);
	ASSERT_OK(kfd_queue_set_scratch(&f.q, 1024));
	ASSERT_OK(fixture_kernel(&f, name, &kernel));
	in = f.data->va;
	out = in + ITEMS;
	for (uint32_t i = 0; i < ITEMS; i++)
		in[i] = i * 0x85ebca6bu;
	for (uint32_t i = 0; i < ITEMS; i += GROUP)
		on_cpu(in + i, want + i);
	args.in = kfd_va(in);
	args.out = kfd_va(out);
	args.rounds = ROUNDS;
	memcpy(f.kernarg->va, &args, sizeof(args));
	while (preemptions < ktap_repeats(PREEMPTIONS, 10)) {
		memset(out, 0, ITEMS * sizeof(*out));
		f.signal.s->value = 1;
		kfd_fill_dispatch(&packet, &kernel, grid, group, f.kernarg->va, &f.signal);
		kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
		dispatches++;
		while (f.signal.s->value) {
			update(&f, 100);
			preemptions += f.signal.s->value != 0;
			/* Alternately at once and with some progress. */
			if (preemptions % 2)
				kfd_signal_wait(&f.k, &f.signal, 2);
		}
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
		for (uint32_t i = 0; i < ITEMS; i++)
			ASSERT(out[i] == want[i], "dispatch %u: item %u is %#x instead of %#x",
			       dispatches, i, out[i], want[i]);
	}
	ktap_note("%u preemptions in %u dispatches", preemptions, dispatches);
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

TEST_TIMEOUT(registers_and_lds_survive, 240)
{
	preempt_kernel("mix", mix_on_cpu);
}

TEST_TIMEOUT(scratch_survives, 240)
{
	preempt_kernel("mix_private", mix_private_on_cpu);
}

struct expected_wave {
	uint64_t descriptor;
	bool wave32;
};

static void expect_in_kernel(uint32_t *hwregs, void *data)
{
	const struct expected_wave *e = data;
	uint64_t pc = hwregs[PC_LO] | (uint64_t)hwregs[PC_HI] << 32;

	EXPECT(pc > e->descriptor && pc < e->descriptor + (1 << 20), "pc %#llx, descriptor at %#llx",
	       (unsigned long long)pc, (unsigned long long)e->descriptor);
	EXPECT(hwregs[EXEC_LO] == ~0u && (e->wave32 || hwregs[EXEC_HI] == ~0u), "exec %#x %#x",
	       hwregs[EXEC_LO], hwregs[EXEC_HI]);
}

TEST(wave_state_of_a_paused_queue)
{
	const uint32_t grid[3] = { 11 * 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	struct kfd_ioctl_get_queue_wave_state_args args = { 0 };
	volatile uint32_t *words;
	struct aql_dispatch packet;
	struct kfd_kernel kernel;
	struct fixture f;
	uint64_t *kernarg;

	fixture_launch(&f);
	ASSERT_OK(fixture_kernel(&f, "endless", &kernel));
	words = f.data->va;
	kernarg = f.kernarg->va;
	kernarg[0] = kfd_va((void *)&words[0]);
	kernarg[1] = kfd_va((void *)&words[64]);
	f.signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, &f.signal);
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	ASSERT(becomes(&words[0], 11, WAIT_MS), "%u of 11 waves started", words[0]);
	/* On gfx12 each workgroup has a second wave, which does not count. */
	usleep(100000);

	args.ctl_stack_address = kfd_va(f.q.cwsr->va);
	args.queue_id = f.q.id;
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &args), -EINVAL);
	update(&f, 0);
	args.queue_id = f.q.id + 1;
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &args), -EFAULT);
	args.queue_id = f.q.id;
	args.ctl_stack_address = KERNEL_ADDRESS;
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &args), -EFAULT);
	args.ctl_stack_address = kfd_va(f.q.cwsr->va);
	ASSERT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &args));
	{
		const struct wave_header *header = f.q.cwsr->va;
		struct expected_wave e = { kernel.descriptor, is_gfx12(&f.k.node) };

		EXPECT_EQ(args.ctl_stack_used_size, header->stack_size);
		EXPECT_EQ(args.save_area_used_size, header->state_size);
		EXPECT(header->stack_size && header->state_size);
		EXPECT_EQ(for_each_wave(&f.q, expect_in_kernel, &e), e.wave32 ? 22 : 11);
	}
	EXPECT_EQ(f.signal.s->value, 1);
	update(&f, 100);
	words[64] = 1;
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}
