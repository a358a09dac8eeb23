// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests switches of the partition mode that fail: the PSP refuses them (model knob
 * `psp.no_partition`), or the HIQ is not unmapped in time. $PARTITION_FAILS is the mask of the
 * knob. The driver sends one command when it is bound, one for each switch, and one to set the old
 * mode again after a failure, which this test counts. It leaves the GPU in mode SPX.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "modes.h"

/* Commands 2 (CPX), 6 and 7 (CPX, back to SPX), 9 and 10 (SPX, back to CPX). */
#define MASK 0x362u

static struct kfd_node nodes[MODE_MAX_NODES + 1];

/* Expects working nodes of a mode, `count` of them. */
static void expect_mode(const char *mode, int count)
{
	char line[16];

	snprintf(line, sizeof(line), "%s\n", mode);
	EXPECT(!strcmp(mode_file(MODE_FILE), line), "%s", mode_file(MODE_FILE));
	ASSERT_EQ(mode_nodes(nodes), count);
	for (int i = 0; i < count; i++) {
		fixture_use_node(nodes[i].index);
		EXPECT_OK(ktap_in_child(fixture_lives, NULL));
	}
}

TEST_TIMEOUT(refused_switches, 240)
{
	int whole;
	const char *mask = getenv("PARTITION_FAILS");

	ASSERT(mask && strtoul(mask, NULL, 0) == MASK, "$PARTITION_FAILS is not %#x", MASK);
	mode_begin("SPX");
	ASSERT_EQ(mode_nodes(nodes), 1);
	whole = (int)nodes[0].num_xcc;
	/* The old mode stays, and the same switch may be repeated. */
	ASSERT_RET(mode_set("CPX"), -EIO);
	expect_mode("SPX", 1);
	ASSERT_OK(mode_set("CPX"));
	expect_mode("CPX", whole);
	ASSERT_OK(mode_set("SPX"));
	expect_mode("SPX", 1);
	/* The old mode is refused, too, but was not left. */
	ASSERT_RET(mode_set("CPX"), -EIO);
	expect_mode("SPX", 1);
	ASSERT_OK(mode_set("CPX"));
	expect_mode("CPX", whole);
	ASSERT_RET(mode_set("SPX"), -EIO);
	expect_mode("CPX", whole);
	ASSERT_OK(mode_set("SPX"));
	expect_mode("SPX", 1);
}

/* The KIQ unmaps the HIQ late, but before the driver gives it up (model knob kiq.late). */
TEST_TIMEOUT(slow_unmap, 240)
{
	int whole;

	mode_begin("SPX");
	ASSERT_EQ(mode_nodes(nodes), 1);
	whole = (int)nodes[0].num_xcc;
	ASSERT_OK(mode_set("CPX"));
	expect_mode("CPX", whole);
	ASSERT_OK(mode_set("SPX"));
	expect_mode("SPX", 1);
}

/*
 * The KIQ unmaps the HIQ after the driver has given it up (model knob kiq.late): the memory of the
 * HIQ is not accessed any more, the GPU is reset, and has nodes when a mode is written.
 */
TEST_TIMEOUT(late_unmap, 240)
{
	int ret;

	mode_begin("SPX");
	ASSERT_RET(mode_set("CPX"), -ETIMEDOUT);
	EXPECT_EQ(mode_nodes(nodes), 0);
	for (unsigned int ms = 0; (ret = mode_set("SPX")) == -EPERM && ms < WAIT_MS; ms += 10)
		usleep(10000);
	ASSERT_OK(ret);
	expect_mode("SPX", 1);
}
