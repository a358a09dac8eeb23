// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests what is left of a change that MES rejects, and after its restart. Sets the knobs mes.* of
 * the GPU model itself, whose control socket is the serial port $MODEL_CONTROL of the guest.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cards.h"
#include "debugger.h"
#include "device.h"
#include "knobs.h"
#include "queue-calls.h"
#include "watch.h"

/* Values of the knob mes.op: an opcode, and from 256 on those of MISC (mes_v12_api_def.h). */
enum { ADD_QUEUE = 2, SET_SHADER_DEBUGGER = 256 + 5 };

static void need_mes_and_knobs(void)
{
	need_mes();
	knobs_open();
}

/* The next frame with an opcode is rejected. */
static unsigned int reject(unsigned int op)
{
	unsigned int before = knob_hits("mes.error");

	knob_set("mes.op", op);
	knob_set("mes.error", 1);
	return before;
}

/* Ends reject(), and expects how many frames were rejected. */
static void expect_rejects(unsigned int before, unsigned int count)
{
	EXPECT_EQ(knob_hits("mes.error") - before, count);
	knob_set("mes.error", 0);
	knob_set("mes.op", 0);
}

static void expect_rejected(unsigned int before)
{
	expect_rejects(before, 1);
}

/* The queue goes on with its old ring, and the new one is not in use. */
TEST(rejected_update_is_undone)
{
	struct kfd_bo *ring;
	unsigned int before;
	struct fixture f;

	need_mes_and_knobs();
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	ASSERT_OK(kfd_bo_create(&f.k, f.q.ring->size, KFD_FLAGS_GTT, &ring));
	before = reject(ADD_QUEUE);
	EXPECT_RET(update(&f.k, f.q.id, kfd_va(ring->va), (uint32_t)ring->size, 100, 7), -ETIMEDOUT);
	expect_rejected(before);
	EXPECT_OK(kfd_bo_unmap_gpu(&f.k, ring));
	EXPECT(fixture_works(&f));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

/* A process that has lost a queue can change none of its others, which run on. */
TEST_TIMEOUT(no_change_after_a_loss, 120)
{
	struct kfd_ioctl_destroy_queue_args args;
	struct kfd_queue second;
	unsigned int before;
	uint32_t event, *words;
	struct fixture f;

	need_mes_and_knobs();
	fixture_launch(&f);
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	knob_set("hws.stuck_xcc", 1);
	fixture_endless(&f, 1);
	args.queue_id = f.q.id;
	EXPECT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_DESTROY_QUEUE, &args));
	expect_hang_event(&f.k, event, WAIT_MS);
	knob_set("hws.stuck_xcc", 0);
	before = reject(ADD_QUEUE);
	EXPECT_RET(update(&f.k, second.id, kfd_va(second.ring->va), (uint32_t)second.ring->size,
			  100, 7), -EACCES);
	expect_rejects(before, 0);
	words = (uint32_t *)f.data->va + 256;
	EXPECT_OK(fixture_fill(&f, &second, words, 64, 7));
	EXPECT_EQ(words[63], 7);
	EXPECT_OK(kfd_queue_destroy(&second));
}

/* What MES has rejected is passed to it when it is repeated. */
TEST(rejected_settings_are_repeated)
{
	volatile uint32_t *words;
	unsigned int before;
	struct session s;
	struct fixture f;

	need_mes_and_knobs();
	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	words = f.data->va;
	before = reject(SET_SHADER_DEBUGGER);
	EXPECT_RET(launch_mode(&s, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT), -ETIMEDOUT);
	expect_rejected(before);
	EXPECT_OK(launch_mode(&s, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT));
	start_waves(&f);
	usleep(300000);
	EXPECT_EQ(words[0], 0);
}

TEST(rejected_flags_are_not_set)
{
	uint32_t flags = KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP;
	unsigned int before;
	struct session s;
	struct kfd k;

	need_mes_and_knobs();
	debug_self(&s, &k);
	enable_own_runtime(&s);
	before = reject(SET_SHADER_DEBUGGER);
	EXPECT_RET(set_flags(&s, &flags), -ETIMEDOUT);
	expect_rejected(before);
	flags = 0;
	EXPECT_OK(set_flags(&s, &flags));
	EXPECT_EQ(flags, 0);
}

/* A watchpoint that MES has rejected is free; one that it has not cleared is not. */
TEST(rejected_watchpoints)
{
	unsigned int before;
	struct session s;
	uint32_t id;
	struct kfd k;

	need_mes_and_knobs();
	debug_self(&s, &k);
	enable_own_runtime(&s);
	before = reject(SET_SHADER_DEBUGGER);
	EXPECT_RET(set_watch(&s, k.node.gpu_id, &s, 0, &id), -ETIMEDOUT);
	expect_rejected(before);
	for (unsigned int i = 0; i < 4; i++)
		ASSERT_OK(set_watch(&s, k.node.gpu_id, &s, 0, &id));
	before = reject(SET_SHADER_DEBUGGER);
	EXPECT_RET(clear_watch(&s, k.node.gpu_id, id), -ETIMEDOUT);
	expect_rejected(before);
	EXPECT_RET(set_watch(&s, k.node.gpu_id, &s, 0, &id), -ENOMEM);
	EXPECT_OK(clear_watch(&s, k.node.gpu_id, 3));
	EXPECT_OK(set_watch(&s, k.node.gpu_id, &s, 0, &id));
	EXPECT_EQ(id, 3);
}

/* A CU mask that MES has rejected is not in force: waves run on all shader engines. */
TEST(rejected_mask_is_undone)
{
	const uint32_t grid[3] = { 128 * 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	struct kfd_ioctl_set_cu_mask_args mask = { .num_cu_mask = 32 };
	/* The first WGP, which is on the first shader engine. */
	uint32_t first = 3, engines = 0, *ids;
	struct aql_dispatch packet;
	struct kfd_kernel kernel;
	unsigned int before;
	struct fixture f;
	uint64_t at;

	need_mes_and_knobs();
	fixture_launch(&f);
	mask.queue_id = f.q.id;
	mask.cu_mask_ptr = kfd_va(&first);
	before = reject(ADD_QUEUE);
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_SET_CU_MASK, &mask), -ETIMEDOUT);
	expect_rejected(before);
	ids = f.data->va;
	at = kfd_va(ids);
	ASSERT_OK(fixture_kernel(&f, "hw_id", &kernel));
	memcpy(f.kernarg->va, &at, 8);
	f.signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, f.kernarg->va, &f.signal);
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	for (unsigned int i = 0; i < 128; i++)
		engines |= 1u << (ids[i] >> 18 & 7);
	EXPECT(__builtin_popcount(engines) > 1, "%#x", engines);
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

/* Two queues that the debugger has suspended. */
struct suspended {
	struct session s;
	struct fixture f;
	struct kfd_queue second;
	uint32_t ids[2], event;
};

static void suspend_two(struct suspended *p)
{
	struct kfd_ioctl_dbg_trap_query_debug_event_args event;

	debug_queue(&p->s, &p->f);
	ASSERT_OK(kfd_queue_create(&p->f.k, &p->second, 64));
	ASSERT_OK(kfd_event_create(&p->f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &p->event));
	p->ids[0] = p->f.q.id;
	p->ids[1] = p->second.id;
	for (unsigned int i = 0; i < 2; i++)
		ASSERT_OK(query_event(&p->s, EC(QUEUE_NEW), &event));
	ASSERT_RET(suspend_queues(&p->s, p->ids, 2, 0), 2);
}

/* The first one is lost, with an event; the second one is not. */
static void expect_first_is_lost(struct suspended *p)
{
	expect_hang_event(&p->f.k, p->event, WAIT_MS);
	EXPECT_OK(fixture_fill(&p->f, &p->second, p->f.data->va, 64, 7));
	EXPECT_RET(fixture_update_queue(&p->second, 100), -EACCES);
	EXPECT_OK(kfd_queue_destroy(&p->f.q));
	EXPECT_OK(kfd_queue_destroy(&p->second));
}

TEST(rejected_queue_is_not_resumed)
{
	struct suspended p;
	unsigned int before;

	need_mes_and_knobs();
	suspend_two(&p);
	before = reject(ADD_QUEUE);
	EXPECT_RET(resume_queues(&p.s, p.ids, 2), 1);
	expect_rejected(before);
	EXPECT_EQ(p.ids[0], p.f.q.id | KFD_DBG_QUEUE_ERROR_MASK);
	EXPECT_EQ(p.ids[1], p.second.id);
	expect_first_is_lost(&p);
}

TEST(rejected_queue_at_the_end_of_a_session)
{
	struct suspended p;
	unsigned int before;

	need_mes_and_knobs();
	suspend_two(&p);
	before = reject(ADD_QUEUE);
	EXPECT_OK(dbg_trap_plain(&p.s, KFD_IOC_DBG_TRAP_DISABLE));
	expect_rejected(before);
	expect_first_is_lost(&p);
}

static void hang_mes(void *unused)
{
	struct kfd_queue q;
	struct kfd k;

	(void)unused;
	fixture_open(&k);
	knob_set("mes.hang", 1);
	EXPECT(kfd_queue_create(&k, &q, 64) < 0);
}

/* A process without queues outlives a reset, after which it is not registered with MES. */
TEST_TIMEOUT(runtime_is_enabled_after_a_reset, 120)
{
	const char *runtime, *add;
	struct kfd_queue q;
	struct kfd k;
	char *text;

	need_mes_and_knobs();
	watch_need_events();
	fixture_open(&k);
	ASSERT_OK(runtime_enable(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
	ASSERT_OK(ktap_in_child(hang_mes, NULL));
	ASSERT_OK(ktap_in_child(fixture_wait_for_reset, NULL));
	knob_set("mes.hang", 0);
	watch_start_only("rkfd_mes_submit", NULL);
	ASSERT_OK(kfd_queue_create(&k, &q, 64));
	text = watch_stop();
	runtime = strstr(text, "op=SET_SHADER_DEBUGGER ");
	add = strstr(text, "op=ADD_QUEUE ");
	EXPECT(add);
	EXPECT(runtime && runtime < add);
	free(text);
	EXPECT_OK(kfd_queue_destroy(&q));
}

/* The second of two GPUs rejects the flags. */
static void reject_flags_on_second(void *data)
{
	const struct kfd_node *nodes = data;
	uint32_t flags = KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP;
	struct kfd first, second;
	unsigned int before;
	struct session s;
	char wanted[64];
	char *text;

	fixture_use_node(nodes[0].index);
	debug_self(&s, &first);
	fixture_use_node(nodes[1].index);
	fixture_open(&second);
	enable_own_runtime(&s);
	watch_start_only("rkfd_mes_submit", NULL);
	before = reject(SET_SHADER_DEBUGGER);
	EXPECT_RET(set_flags(&s, &flags), -ETIMEDOUT);
	expect_rejected(before);
	text = watch_stop();
	snprintf(wanted, sizeof(wanted), "gpu_id=%u op=SET_SHADER_DEBUGGER ", nodes[0].gpu_id);
	EXPECT_EQ(watch_count(text, wanted), 2);
	free(text);
	flags = 0;
	EXPECT_OK(set_flags(&s, &flags));
	EXPECT_EQ(flags, 0);
}

/* The GPU with the control socket, the first one, becomes the second one for a while. */
TEST_TIMEOUT(rejected_flags_are_undone_on_the_other_gpu, 120)
{
	struct kfd_node nodes[2];

	need_mes_and_knobs();
	watch_need_events();
	if (cards_find(nodes, 2) < 2)
		SKIP("one GPU");
	device_find();
	ASSERT_OK(device_unbind());
	ASSERT_OK(device_bind());
	ASSERT(cards_find(nodes, 2) == 2);
	EXPECT_OK(ktap_in_child(reject_flags_on_second, nodes));
	fixture_use_node(nodes[0].index);
	device_find();
	ASSERT_OK(device_unbind());
	ASSERT_OK(device_bind());
}
