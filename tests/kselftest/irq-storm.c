// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the interrupt ring: each overflow is logged once, and later interrupts arrive (needs a GPU
 * that repeats some interrupt entries: the model with the knob ih.storm=64); a write pointer within
 * an entry is that of the entry.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "knobs.h"

/* Interrupts between two overflows at most, and of which none overflows the ring. */
#define MOST 200
#define CALM 8

/* The messages of rkfd and of the C driver. */
static const char *const messages[2] = { "IH ring overflow", "ih ring buffer overflow" };

static int overflows(const int logs[2])
{
	return kmsg_lines_with(logs[0], messages[0]) + kmsg_lines_with(logs[1], messages[1]);
}

/* The second overflow is found only if the first was acknowledged. */
TEST_TIMEOUT(each_overflow_is_found_once, 240)
{
	const int logs[2] = { kmsg_open(), kmsg_open() };
	struct fixture f;

	fixture_launch(&f);
	for (int round = 0; round < 2; round++) {
		int found = 0;

		for (int n = 0; n < MOST && !found; n++) {
			EXPECT(fixture_works(&f));
			found = overflows(logs);
		}
		EXPECT_EQ(found, 1);
		for (int n = 0; n < CALM; n++)
			EXPECT(fixture_works(&f));
		EXPECT_EQ(overflows(logs), 0);
	}
	close(logs[0]);
	close(logs[1]);
}

TEST(write_pointer_within_an_entry)
{
	struct fixture f;

	knobs_open();
	device_find();
	fixture_launch(&f);
	for (unsigned int dwords = 1; dwords < 8; dwords++) {
		knob_set("ih.wptr_dwords", dwords);
		EXPECT(fixture_works(&f));
	}
	EXPECT(knob_hits("ih.wptr_dwords") > 0);
	knob_set("ih.wptr_dwords", 0);
	kfd_close(&f.k);
	/* Waits for the handler of interrupts. */
	EXPECT_OK(device_unbind());
	EXPECT_OK(device_bind());
}
