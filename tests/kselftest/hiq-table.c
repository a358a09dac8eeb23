// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Injects a fault into each packet of the HIQ and of the KIQ in turn, reports the driver's reaction
 * (the table of Documentation/hiq-faults.rst), and on rkfd compares it with the table below. Sets
 * the knobs hws.* of the GPU model, see faulttable.h.
 */
#include <unistd.h>

#include "faulttable.h"

/* Values of the knob hws.op: PM4 opcodes (soc15d.h) in the HIQ, and from 256 on in a KIQ. */
enum {
	WRITE_DATA = 0x37,
	SET_RESOURCES = 0xa0,
	UNMAP_QUEUES = 0xa3,
	QUERY_STATUS = 0xa4,
	RUN_LIST = 0xa5,
	KIQ_SET_UCONFIG_REG = 256 + 0x79,
	KIQ_INVALIDATE_TLBS = 256 + 0x98,
	KIQ_SET_RESOURCES = 256 + 0xa0,
	KIQ_MAP_QUEUES = 256 + 0xa2,
	KIQ_UNMAP_QUEUES = 256 + 0xa3,
};

/*
 * A packet is dropped, or its ring stops there. A driver cannot find out that UNMAP_QUEUES,
 * SET_RESOURCES or WRITE_DATA was dropped, as the fence behind it is written.
 */
static const struct injection packets = {
	.op = "hws.op",
	.faults = { "hws.drop", "hws.hang_op" },
	.hang = "hws.hang_op",
	/* queue_preemption_timeout_ms */
	.timeout = 10,
	.longest = 20,
};

static void open_control(void)
{
	if (gpu_is_gfx12())
		SKIP("no HIQ");
	table_open(&packets);
}

/* RUN_LIST has no fence: the driver meets a fault of it at the next preemption. */

static int create_and_destroy_queue(struct fixture *f)
{
	int ret = act_create_queue(f);

	return ret ? ret : act_destroy_queue(f);
}

static int evict_and_destroy_queue(struct fixture *f, unsigned int seconds)
{
	int ret = act_evict(f);

	sleep(seconds);
	return ret ? ret : act_destroy_queue(f);
}

/* The restore is done after a second. */
static int restore_and_destroy_queue(struct fixture *f)
{
	return evict_and_destroy_queue(f, 1);
}

/* A restore that fails, and the reset after it, are done after 12 s. */
static int reset_and_destroy_queue(struct fixture *f)
{
	return evict_and_destroy_queue(f, 12);
}

/* A packet that is dropped. */
static const struct row dropped[] = {
	{ "RUN_LIST", RUN_LIST, 1, WORKS, 0, 0,
	  "CREATE_QUEUE, DESTROY_QUEUE", create_and_destroy_queue },
	{ "RUN_LIST (eviction)", RUN_LIST, 1, WORKS, 0, 0,
	  "munmap, DESTROY_QUEUE", restore_and_destroy_queue, prepare_userptr },
	{ "RUN_LIST (restore)", RUN_LIST, 2, WORKS, 0, 0,
	  "munmap, DESTROY_QUEUE", restore_and_destroy_queue, prepare_userptr },
	{ "INVALIDATE_TLBS", KIQ_INVALIDATE_TLBS, 1, WORKS, 0, 0,
	  "UNMAP_MEMORY", act_unmap, prepare_bo },
	/* With several XCCs another one writes the fence. */
	{ "QUERY_STATUS", QUERY_STATUS, 1, CARD_RESET, -ETIME, 0,
	  "DESTROY_QUEUE", act_destroy_queue, .one_xcc = true },
};

/* A ring that stops at a packet. */
static const struct row stopped[] = {
	{ "RUN_LIST", RUN_LIST, 1, CARD_RESET, 0, -ETIME,
	  "CREATE_QUEUE, DESTROY_QUEUE", create_and_destroy_queue },
	{ "RUN_LIST (eviction)", RUN_LIST, 1, CARD_RESET, 0, 0,
	  "munmap, DESTROY_QUEUE", reset_and_destroy_queue, prepare_userptr },
	{ "RUN_LIST (restore)", RUN_LIST, 2, CARD_RESET, 0, -ETIME,
	  "munmap, DESTROY_QUEUE", restore_and_destroy_queue, prepare_userptr },
	{ "UNMAP_QUEUES", UNMAP_QUEUES, 1, CARD_RESET, 0, -ETIME,
	  "CREATE_QUEUE", act_create_queue },
	{ "UNMAP_QUEUES", UNMAP_QUEUES, 1, CARD_RESET, 0, -ETIME,
	  "DESTROY_QUEUE", act_destroy_queue },
	{ "UNMAP_QUEUES (eviction)", UNMAP_QUEUES, 1, CARD_RESET, 0, 0,
	  "munmap", act_evict, prepare_userptr },
	{ "UNMAP_QUEUES (exit)", UNMAP_QUEUES, 1, CARD_RESET, 0, 0, "exit" },
	{ "QUERY_STATUS", QUERY_STATUS, 1, CARD_RESET, 0, -ETIME,
	  "DESTROY_QUEUE", act_destroy_queue },
	{ "INVALIDATE_TLBS", KIQ_INVALIDATE_TLBS, 1, CARD_RESET, 0, -ETIMEDOUT,
	  "UNMAP_MEMORY", act_unmap, prepare_bo },
};

static const struct row dropped_at_bring_up[] = {
	{ "ring test of the KIQ", KIQ_SET_UCONFIG_REG, 1, WORKS, -ETIMEDOUT, 0 },
	{ "MAP_QUEUES of the HIQ", KIQ_MAP_QUEUES, 1, WORKS, -ETIME, 0 },
	{ "QUERY_STATUS", QUERY_STATUS, 1, WORKS, -ETIME, 0, .one_xcc = true },
};

static const struct row stopped_at_bring_up[] = {
	{ "SET_RESOURCES of the KIQ", KIQ_SET_RESOURCES, 1, WORKS, 0, -ETIMEDOUT },
	{ "ring test of the KIQ", KIQ_SET_UCONFIG_REG, 1, WORKS, 0, -ETIMEDOUT },
	{ "MAP_QUEUES of the HIQ", KIQ_MAP_QUEUES, 1, WORKS, 0, -ETIMEDOUT },
	{ "SET_RESOURCES of the HIQ", SET_RESOURCES, 1, WORKS, 0, -ETIME },
	{ "WRITE_DATA of the HIQ", WRITE_DATA, 1, WORKS, 0, -ETIME },
	{ "QUERY_STATUS", QUERY_STATUS, 1, WORKS, 0, -ETIME },
};

static const struct row at_unbind[] = {
	{ "UNMAP_QUEUES of the HIQ", KIQ_UNMAP_QUEUES, 1, WORKS, 0, 0 },
};

TEST_TIMEOUT(drop, 300)
{
	open_control();
	table_run(dropped, COUNT(dropped), packets.faults[0]);
}

TEST_TIMEOUT(hang, 600)
{
	open_control();
	table_run(stopped, COUNT(stopped), packets.hang);
}

TEST_TIMEOUT(bring_up_drop, 600)
{
	open_control();
	table_rebind(dropped_at_bring_up, COUNT(dropped_at_bring_up), packets.faults[0], true);
}

TEST_TIMEOUT(bring_up_hang, 600)
{
	open_control();
	table_rebind(stopped_at_bring_up, COUNT(stopped_at_bring_up), packets.hang, true);
}

TEST_TIMEOUT(shutdown, 300)
{
	open_control();
	table_rebind(at_unbind, COUNT(at_unbind), packets.hang, false);
}
