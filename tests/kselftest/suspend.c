// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests system suspend and resume: VRAM contents and queues survive. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "debugger.h"
#include "device.h"

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
