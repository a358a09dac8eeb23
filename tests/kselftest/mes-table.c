// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Injects a fault into each MES frame in turn, reports the driver's reaction (the table of
 * Documentation/mes-faults.rst), and on rkfd compares it with the table below. Sets the knobs mes.*
 * of the GPU model, see faulttable.h.
 */
#include "device.h"
#include "faulttable.h"

/* Values of the knob mes.op: opcodes, and from 256 on those of MISC (mes_v12_api_def.h). */
enum {
	ADD_QUEUE = 2,
	REMOVE_QUEUE = 3,
	SUSPEND = 6,
	RESUME = 7,
	RESET = 8,
	QUERY_SCHEDULER_STATUS = 11,
	SET_HW_RSRC_1 = 19,
	INV_TLBS = 20,
	WAIT_REG_MEM = 256 + 4,
	SET_SHADER_DEBUGGER = 256 + 5,
	CHANGE_CONFIG = 256 + 9,
	/* Opcode 0 is no opcode for the knob. */
	SET_HW_RSRC = 512,
};

static const struct injection frames = {
	.op = "mes.op",
	.faults = { "mes.error", "mes.no_status", "mes.hang" },
	.hang = "mes.hang",
	.timeout = 2.5,
	.longest = 10,
};

static void open_control(void)
{
	need_mes();
	table_open(&frames);
}

static const struct row at_runtime[] = {
	{ "ADD_QUEUE", ADD_QUEUE, 1, WORKS, -ETIMEDOUT, -ETIMEDOUT,
	  "CREATE_QUEUE", act_create_queue },
	{ "REMOVE_QUEUE", REMOVE_QUEUE, 1, WORKS, 0, -ETIMEDOUT,
	  "DESTROY_QUEUE", act_destroy_queue },
	{ "ADD_QUEUE (restore)", ADD_QUEUE, 1, LOST, 0, 0, "munmap", act_evict, prepare_userptr },
	{ "REMOVE_QUEUE (eviction)", REMOVE_QUEUE, 1, WORKS, 0, 0,
	  "munmap", act_evict, prepare_userptr },
	{ "SUSPEND", SUSPEND, 1, LOST, 0, -ETIMEDOUT,
	  "DESTROY_QUEUE", act_destroy_queue, NULL, "hws.stuck_xcc" },
	{ "RESUME", RESUME, 1, LOST, 0, -ETIMEDOUT,
	  "DESTROY_QUEUE", act_destroy_queue, NULL, "hws.stuck_xcc" },
	{ "RESET", RESET, 1, LOST, 0, -ETIMEDOUT,
	  "DESTROY_QUEUE", act_destroy_queue, NULL, "hws.stuck_xcc" },
	{ "REMOVE_QUEUE (reset)", REMOVE_QUEUE, 2, LOST, 0, -ETIMEDOUT,
	  "DESTROY_QUEUE", act_destroy_queue, NULL, "hws.stuck_xcc" },
	{ "REMOVE_QUEUE (exit)", REMOVE_QUEUE, 1, WORKS, 0, 0, "exit", NULL },
	{ "SET_SHADER_DEBUGGER", SET_SHADER_DEBUGGER, 1, WORKS, -ETIMEDOUT, -ETIMEDOUT,
	  "RUNTIME_ENABLE", act_enable_runtime, prepare_no_queue },
	{ "SET_SHADER_DEBUGGER (exit)", SET_SHADER_DEBUGGER, 1, WORKS, 0, 0, "exit", NULL },
	{ "INV_TLBS", INV_TLBS, 1, WORKS, 0, -ETIMEDOUT, "UNMAP_MEMORY", act_unmap, prepare_bo },
	{ "WAIT_REG_MEM", WAIT_REG_MEM, 1, UNSENT, 0, 0, "CREATE_QUEUE", act_create_queue },
	{ "QUERY_SCHEDULER_STATUS", QUERY_SCHEDULER_STATUS, 1, CARD_RESET, -ETIMEDOUT, -ETIMEDOUT,
	  "CREATE_QUEUE", act_create_queue },
};

static int isolate(struct fixture *f)
{
	(void)f;
	return device_try_set("enforce_isolation", "1\n");
}

/* Boot isolate-hang has an MES that stops there. */
static const struct row of_sysfs[] = {
	{ "CHANGE_CONFIG", CHANGE_CONFIG, 1, WORKS, 0, 0, "enforce_isolation", isolate },
};

static const struct row at_bring_up[] = {
	{ "SET_HW_RSRC of pipe 1", SET_HW_RSRC, 1, WORKS, -ETIMEDOUT, -ETIMEDOUT },
	{ "SET_HW_RSRC_1 of pipe 1", SET_HW_RSRC_1, 1, WORKS, 0, -ETIMEDOUT },
	{ "ADD_QUEUE of the ring", ADD_QUEUE, 1, WORKS, -ETIMEDOUT, -ETIMEDOUT },
	{ "SET_HW_RSRC of pipe 0", SET_HW_RSRC, 2, WORKS, -ETIMEDOUT, -ETIMEDOUT },
	{ "SET_HW_RSRC_1 of pipe 0", SET_HW_RSRC_1, 2, WORKS, 0, -ETIMEDOUT },
	{ "QUERY_SCHEDULER_STATUS", QUERY_SCHEDULER_STATUS, 1, WORKS, -ETIMEDOUT, -ETIMEDOUT },
	{ "CHANGE_CONFIG", CHANGE_CONFIG, 1, UNSENT, 0, 0 },
};

static const struct row at_unbind[] = {
	{ "REMOVE_QUEUE of the ring", REMOVE_QUEUE, 1, WORKS, 0, 0 },
};

static void run_all(const char *fault)
{
	open_control();
	table_run(at_runtime, COUNT(at_runtime), fault);
}

static void run_with_status(const char *fault)
{
	run_all(fault);
	device_find();
	table_run(of_sysfs, COUNT(of_sysfs), fault);
	EXPECT_OK(device_try_set("enforce_isolation", "0\n"));
}

TEST_TIMEOUT(error_status, 300)
{
	run_with_status("mes.error");
}

TEST_TIMEOUT(no_status, 300)
{
	run_with_status("mes.no_status");
}

TEST_TIMEOUT(hang, 600)
{
	run_all("mes.hang");
}

TEST_TIMEOUT(bring_up, 600)
{
	open_control();
	for (size_t i = 0; frames.faults[i]; i++)
		table_rebind(at_bring_up, COUNT(at_bring_up), frames.faults[i], true);
}

TEST_TIMEOUT(shutdown, 300)
{
	open_control();
	for (size_t i = 0; frames.faults[i]; i++)
		table_rebind(at_unbind, COUNT(at_unbind), frames.faults[i], false);
}
