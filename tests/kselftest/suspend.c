// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests system suspend and resume: VRAM contents and queues survive. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cs.h"
#include "debugger.h"
#include "device.h"
#include "knobs.h"

#define SIZE (12ull << 20)

/*
 * The card keeps its power. The driver resets it on resume, which is equivalent to a power cycle:
 * VRAM contents and firmware are lost.
 */
static int sleep_and_wake(const char *depth)
{
	int log = kmsg_open(), ret = try_to_sleep(depth);

	EXPECT_EQ(kmsg_lines_with(log, "kept its power"), 1);
	close(log);
	return ret;
}

static void mark(uint64_t *words, uint64_t id)
{
	for (size_t i = 0; i < SIZE / 8; i += 512)
		words[i] = words[i + 511] = id << 32 | i;
}

static bool is_marked(const uint64_t *words, uint64_t id)
{
	for (size_t i = 0; i < SIZE / 8; i += 512)
		if (!EXPECT(words[i] == (id << 32 | i) && words[i + 511] == words[i],
			    "word %zu: %#llx, %#llx", i, (unsigned long long)words[i],
			    (unsigned long long)words[i + 511]))
			return false;
	return true;
}

TEST_TIMEOUT(idle, 120)
{
	ASSERT_OK(sleep_and_wake("devices"));
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

TEST_TIMEOUT(queue_and_vram_survive, 180)
{
	struct kfd_bo *vram, *gtt;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, SIZE, KFD_FLAGS_VRAM, &vram));
	ASSERT_OK(kfd_bo_create(&f.k, SIZE, KFD_FLAGS_GTT, &gtt));
	mark(vram->va, 1);
	mark(gtt->va, 2);
	EXPECT(fixture_works(&f));
	for (int round = 0; round < 2; round++) {
		ASSERT_OK(sleep_and_wake(round ? "platform" : "devices"));
		EXPECT(is_marked(vram->va, 1));
		EXPECT(is_marked(gtt->va, 2));
		/* Same queue, code and arguments. */
		ASSERT(fixture_works(&f));
		ASSERT_OK(fixture_fill(&f, &f.q, vram->va, 1024, 0x600d0000u + (uint32_t)round));
		EXPECT_EQ(((uint32_t *)vram->va)[1023], 0x600d0000u + (uint32_t)round);
		mark(vram->va, 1);
	}
	EXPECT_OK(kfd_queue_destroy(&f.q));
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

#define PART (2u << 20)

/* Submits a number of copies to a BO on a new context, after other jobs. */
static uint64_t copy_after(struct cs *cs, const struct cs_bo *from, const struct cs_bo *to,
			   uint32_t count, const struct drm_amdgpu_cs_chunk_dep *after,
			   uint32_t deps, uint32_t *context)
{
	struct drm_amdgpu_bo_list_entry bos[] = { { cs->code.handle, 0 },
						  { from->handle, 0 },
						  { to->handle, 0 } };
	struct cs_job job;
	uint64_t handle = 0;

	ASSERT_OK(cs_ctx_alloc(cs->fd, context));
	cs_job(&job, cs, 0);
	job.ctx = *context;
	cs_add_bos(&job, bos, 3);
	cs_add_ib(&job, cs_copies(cs, from->va, to->va, PART, count));
	if (deps)
		cs_add(&job, AMDGPU_CHUNK_ID_DEPENDENCIES, after, deps * (uint32_t)sizeof(*after));
	ASSERT_OK(cs_submit(&job, &handle));
	return handle;
}

/* A job that waits for others when the machine suspends runs completely. */
TEST_TIMEOUT(queued_job_survives, 180)
{
	struct drm_amdgpu_cs_chunk_dep deps[2] = { { .ip_type = AMDGPU_HW_IP_DMA },
						   { .ip_type = AMDGPU_HW_IP_DMA } };
	struct cs_bo source, vram, other;
	uint64_t job, busy;
	struct cs cs;

	cs_open(&cs);
	cs_bo_new(&cs, &vram, PART, AMDGPU_GEM_DOMAIN_VRAM);
	cs_bo_new(&cs, &other, PART, AMDGPU_GEM_DOMAIN_VRAM);
	cs_bo_new(&cs, &source, PART, AMDGPU_GEM_DOMAIN_GTT);
	for (uint32_t i = 0; i < PART / 4; i++)
		source.words[i] = 0x5a5a0000 + i;
	/* The first engine, on which the job runs, has less to do than the second one. */
	deps[0].handle = copy_after(&cs, &source, &other, 1, NULL, 0, &deps[0].ctx_id);
	deps[1].handle = copy_after(&cs, &source, &other, 1500, NULL, 0, &deps[1].ctx_id);
	job = copy_after(&cs, &source, &vram, 500, deps, 2, &cs.ctx);
	ASSERT_OK(cs_wait(&cs, 0, job, 0, &busy));
	ASSERT_EQ(busy, 1);
	ASSERT_OK(sleep_and_wake("devices"));
	cs_done(&cs, 0, job);
	for (uint32_t i = 0; i < PART / 4; i += 1021)
		ASSERT(vram.words[i] == 0x5a5a0000 + i, "word %u: %#x", i, vram.words[i]);
}

/* Limits of clocks and power, which firmware loses, are set again. */
TEST_TIMEOUT(limits_survive, 120)
{
	static const char *const files[] = { "pp_od_clk_voltage",
					     "power_dpm_force_performance_level",
					     "hwmon/hwmon*/power1_cap", "hwmon/hwmon*/freq1_input",
					     "pm_policy/xgmi_plpd" };
	static const char *const expected[] = { "OD_SCLK:\n0: 1000Mhz\n1: 1500Mhz\n", "manual\n",
						"300000000\n", "1000000000\n",
						"0 : plpd_disallow*\n" };
	char text[256];

	if (gpu_is_gfx12())
		SKIP("the driver does not manage the SMU of this card");
	device_find();
	device_set(files[1], "manual");
	device_set(files[0], "s 0 1000");
	device_set(files[0], "s 1 1500");
	device_set(files[0], "c");
	device_set(files[2], "300000000");
	device_set(files[4], "0\n");
	ASSERT_OK(sleep_and_wake("devices"));
	for (int i = 0; i < 5; i++) {
		device_get(files[i], text, sizeof(text));
		EXPECT(!strncmp(text, expected[i], strlen(expected[i])), "%s: %s", files[i], text);
	}
	device_set(files[1], "auto");
	device_set(files[4], "1\n");
	device_get("hwmon/hwmon*/power1_cap_max", text, sizeof(text));
	device_set(files[2], text);
}

struct waiter {
	struct kfd k;
	uint32_t event, result;
	int ret;
};

static void *wait_for_event(void *data)
{
	struct waiter *w = data;
	struct kfd_event_data event = { .event_id = w->event };

	w->ret = kfd_event_wait(&w->k, &event, 1, true, 60000, &w->result);
	return NULL;
}

TEST_TIMEOUT(waiter_survives, 120)
{
	struct waiter w = { .result = ~0u };
	pthread_t thread;

	fixture_open(&w.k);
	ASSERT_OK(kfd_event_create(&w.k, KFD_IOC_EVENT_SIGNAL, true, &w.event));
	ASSERT(!pthread_create(&thread, NULL, wait_for_event, &w));
	usleep(200000);
	ASSERT_OK(sleep_and_wake("devices"));
	usleep(200000);
	EXPECT_OK(kfd_event_set(&w.k, w.event));
	pthread_join(thread, NULL);
	EXPECT_OK(w.ret);
	EXPECT_EQ(w.result, KFD_IOC_WAIT_RESULT_COMPLETE);
}

/* A debugger's settings survive: waves that read the watched word stop. */
TEST_TIMEOUT(watchpoint_survives, 120)
{
	uint32_t enable = KFD_DBG_TRAP_MASK_DBG_ADDRESS_WATCH, request = enable, id;
	volatile uint32_t *words;
	struct session s;
	struct fixture f;

	need_sleep();
	device_find();
	debug_queue(&s, &f);
	words = f.data->va;
	ASSERT_OK(launch_override(&s, KFD_DBG_TRAP_OVERRIDE_OR, &enable, &request));
	ASSERT_OK(set_watch(&s, f.k.node.gpu_id, &words[64],
			    KFD_DBG_TRAP_ADDRESS_WATCH_MODE_READ, &id));
	ASSERT_OK(sleep_and_wake("devices"));
	start_waves(&f);
	ASSERT(becomes(&words[0], 11, WAIT_MS), "%u of 11 waves", words[0]);
	usleep(300000);
	words[64] = 1;
	usleep(300000);
	EXPECT_EQ(f.signal.s->value, 1);
}

#define PARTS 16

static struct cs part_cs;
static uint64_t part_bytes;

/* Allocates a part of VRAM, which waits for a reset. */
static void *allocate_part(void *handle)
{
	EXPECT_OK(cs_bo_create(part_cs.fd, part_bytes, AMDGPU_GEM_DOMAIN_VRAM,
			       AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED, handle));
	return NULL;
}

/* Returns in how many pages of a BO the first word is not 0. */
static unsigned int nonzero_pages(uint32_t handle)
{
	volatile uint64_t *words = cs_bo_map(part_cs.fd, handle, part_bytes);
	unsigned int count = 0;

	for (uint64_t i = 0; i < part_bytes / 8; i += 512)
		count += words[i] != 0;
	munmap((void *)words, part_bytes);
	return count;
}

/*
 * The boot firmware does not set the address of VRAM at resume, but at the reset that follows: that
 * does not write the saved contents over memory that was allocated since.
 */
TEST_TIMEOUT(saved_vram_after_a_failed_resume, 180)
{
	uint32_t handles[PARTS];
	pthread_t threads[PARTS];
	unsigned int before;
	struct kfd_bo *vram;
	struct kfd k;
	int log;

	knobs_open();
	need_sleep();
	before = knob_hits("gmc.fb_lost");
	cs_open(&part_cs);
	fixture_open(&k);
	/* More than half, thus of the same memory. */
	part_bytes = small_vram_bytes(&k) * 3 / 4 / PARTS & ~((2ull << 20) - 1);
	ASSERT_OK(kfd_bo_create(&k, PARTS * part_bytes, KFD_FLAGS_VRAM, &vram));
	for (uint64_t i = 0; i < PARTS * part_bytes / 8; i += 512)
		((uint64_t *)vram->va)[i] = ~i;
	log = kmsg_open();
	knob_set("gmc.fb_lost", 2);
	EXPECT_OK(sleep_and_wake("devices"));
	EXPECT_OK(kfd_bo_free(&k, vram));
	for (int i = 0; i < PARTS; i++)
		ASSERT(!pthread_create(&threads[i], NULL, allocate_part, &handles[i]));
	for (int i = 0; i < PARTS; i++)
		pthread_join(threads[i], NULL);
	ASSERT(kmsg_wait_for(log, "was reset (", 60));
	close(log);
	EXPECT_EQ(knob_hits("gmc.fb_lost"), before + 1);
	for (int i = 0; i < PARTS; i++)
		EXPECT_EQ(nonzero_pages(handles[i]), 0);
	close(part_cs.fd);
	kfd_close(&k);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}
