// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests overflows of the interrupt ring: each is logged once, and later interrupts arrive. Needs a
 * GPU that repeats some interrupt entries: the model with the knob ih.storm=64.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "device.h"
#include "fixture.h"

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
