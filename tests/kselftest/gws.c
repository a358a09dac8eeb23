// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests ALLOC_QUEUE_GWS: global wave sync for one queue of a process, as cooperative launches need
 * it.
 */
#include "fixture.h"

#define NO_QUEUE 1000u

static int gws(struct kfd *k, uint32_t queue, uint32_t num)
{
	struct kfd_ioctl_alloc_queue_gws_args args = { .queue_id = queue,
						       .num_gws = num,
						       .first_gws = 77 };
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_ALLOC_QUEUE_GWS, &args);

	if (!ret)
		EXPECT_EQ(args.first_gws, 0);
	return ret;
}

/* num_gws in the topology. */
static uint64_t num_gws(struct kfd *k)
{
	uint64_t num = 0;
	char path[128];

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/properties", k->node.index);
	ASSERT_OK(kfd_sysfs_value(path, "num_gws", &num));
	return num;
}

TEST(one_queue_per_process)
{
	struct kfd_queue second;
	struct fixture f;

	fixture_launch(&f);
	EXPECT_RET(gws(&f.k, NO_QUEUE, 1), -EINVAL);
	if (!num_gws(&f.k)) {
		EXPECT_RET(gws(&f.k, f.q.id, 1), -ENODEV);
		return;
	}
	EXPECT_RET(gws(&f.k, f.q.id, 0), -EINVAL);
	EXPECT_OK(gws(&f.k, f.q.id, 64));
	EXPECT_RET(gws(&f.k, f.q.id, 64), -EBUSY);
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	EXPECT_RET(gws(&f.k, second.id, 64), -EBUSY);
	EXPECT(fixture_works(&f));
	EXPECT_OK(gws(&f.k, f.q.id, 0));
	EXPECT(fixture_works(&f));
	EXPECT_OK(gws(&f.k, second.id, 64));
	/* Destroying the queue frees it. */
	EXPECT_OK(kfd_queue_destroy(&second));
	EXPECT_OK(gws(&f.k, f.q.id, 1));
	EXPECT(fixture_works(&f));
}

static void have_it(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	EXPECT_OK(gws(&f.k, f.q.id, 64));
	EXPECT(fixture_works(&f));
}

/* The firmware multiplexes processes. */
TEST(several_processes)
{
	struct fixture f;

	fixture_launch(&f);
	if (!num_gws(&f.k))
		SKIP("no GWS");
	EXPECT_OK(gws(&f.k, f.q.id, 64));
	for (int i = 0; i < 3; i++) {
		EXPECT_OK(ktap_in_child(have_it, NULL));
		EXPECT(fixture_works(&f));
	}
}
