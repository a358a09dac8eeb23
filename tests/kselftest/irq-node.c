// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests which interrupts of user queues reach the process when their entries have the node id or
 * the VMID of others (knobs `ih.node` and `ih.vmid` of the GPU model). An interrupt counts if a
 * node of the card has both its node id and its VMID; the process is that of the PASID
 * (kfd_irq_is_from_node, kfd_priv.h).
 *
 * $IRQ_MODE is the partition mode. $IRQ_XCC and $IRQ_SDMA are the nodes whose interrupts arrive, of
 * XCCs and of SDMA engines: `none`, `odd` or `all`. $IRQ_BY is the index of the node that takes
 * them; by default each node takes its own.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../workloads/sdma-queue.h"
#include "listen.h"
#include "modes.h"

#define NOWHERE 0x7000deadb000ull
#define COMPLETE KFD_IOC_WAIT_RESULT_COMPLETE
#define TIMEOUT KFD_IOC_WAIT_RESULT_TIMEOUT
/* The nodes of two AIDs have all cases. */
#define MOST 4

static struct kfd_node nodes[MODE_MAX_NODES + 1];

static const char *setting(const char *name, const char *otherwise)
{
	const char *text = getenv(name);

	return text ? text : otherwise;
}

/* Returns whether the interrupts of a node arrive. */
static bool arrives(const char *engines, const struct kfd_node *node)
{
	const char *which = setting(engines, "all");

	return !strcmp(which, "all") || (!strcmp(which, "odd") && (node - nodes) % 2);
}

/* Returns the node that takes the interrupts of a node. */
static const struct kfd_node *taken_by(const struct kfd_node *node)
{
	const char *by = getenv("IRQ_BY");

	return by ? &nodes[atoi(by)] : node;
}

static void expect_event(struct kfd *k, uint32_t id, bool arrives)
{
	EXPECT_EQ(event_result(k, id, arrives ? WAIT_MS : 500), arrives ? COMPLETE : TIMEOUT);
}

static void on_nodes(void (*fn)(void *))
{
	int count;

	mode_begin(setting("IRQ_MODE", "SPX"));
	count = mode_nodes(nodes);
	for (int i = 0; i < count && i < MOST; i++) {
		fixture_use_node(nodes[i].index);
		EXPECT(!ktap_in_child(fn, &nodes[i]), "node %d", nodes[i].index);
	}
	mode_end();
}

static void completes(void *data)
{
	struct fixture f;

	fixture_launch(&f);
	fixture_fill_start(&f, &f.q, &f.signal, 0, f.data->va, 64, 1);
	for (uint32_t ms = 0; ms < WAIT_MS && f.signal.s->value; ms++)
		usleep(1000);
	EXPECT_EQ(f.signal.s->value, 0);
	expect_event(&f.k, f.signal.event_id, arrives("IRQ_XCC", data));
}

TEST_TIMEOUT(end_of_pipe, 120)
{
	on_nodes(completes);
}

static void traps(void *data)
{
	uint32_t packets[32], *end = packets;
	struct kfd_signal signal;
	struct sdma_queue q;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_signal_create(&k, 1, &signal));
	ASSERT_OK(sdma_queue_create(&k, &q, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 0, 4096));
	sdma_signal(&end, &signal);
	ASSERT_OK(sdma_queue_put(&q, packets, end));
	sdma_queue_ring(&q);
	for (uint32_t ms = 0; ms < WAIT_MS && signal.s->value; ms++)
		usleep(1000);
	EXPECT_EQ(signal.s->value, 0);
	expect_event(&k, signal.event_id, arrives("IRQ_SDMA", data));
}

TEST_TIMEOUT(trap_of_sdma, 120)
{
	on_nodes(traps);
}

static void submits_nonsense(void *data)
{
	struct aql_dispatch packet = { .header = 7 };
	struct kfd_context_save_area_header *header;
	const struct kfd_node *node = data;
	volatile uint64_t *payload;
	struct kfd_queue q;
	uint32_t event;
	bool wanted;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(enable_runtime(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
	ASSERT_OK(kfd_queue_create(&k, &q, 64));
	ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_SIGNAL, true, &event));
	payload = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(payload != MAP_FAILED);
	header = q.cwsr->va;
	header->err_payload_addr = kfd_va((void *)payload);
	header->err_event_id = event;
	kfd_queue_ring(&q, kfd_queue_write(&q, &packet));
	/* The node that takes the interrupt needs the queue. */
	wanted = arrives("IRQ_XCC", node) && taken_by(node) == node;
	expect_event(&k, event, wanted);
	EXPECT_EQ(*payload, wanted ? KFD_EC_MASK(EC_QUEUE_PACKET_UNSUPPORTED) : 0);
}

TEST_TIMEOUT(bad_packet, 120)
{
	on_nodes(submits_nonsense);
}

static void faults(void *data)
{
	const struct kfd_node *node = data, *by = taken_by(node);
	struct kfd_event_data event = { 0 };
	bool wanted = arrives("IRQ_XCC", node);
	struct fixture f;
	const char *text;
	uint32_t result;
	struct kfd other;
	int own, fd;

	fixture_launch(&f);
	/* The C driver up to 7.2 also sends SIGSEGV. */
	signal(SIGSEGV, SIG_IGN);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_MEMORY, false, &event.event_id));
	own = listen_to(&f.k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_VMFAULT));
	other = f.k;
	other.node = *by;
	fd = by == node ? own : listen_to(&other, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_VMFAULT));
	fixture_start(&f, "poke", NOWHERE, 1);
	ASSERT_OK(kfd_event_wait(&f.k, &event, 1, true, wanted ? WAIT_MS : 500, &result));
	EXPECT_EQ(result, wanted ? COMPLETE : TIMEOUT);
	if (wanted) {
		EXPECT_EQ(event.memory_exception_data.va, NOWHERE);
		EXPECT_EQ(event.memory_exception_data.gpu_id, by->gpu_id);
		listen_for_line(fd, ":irq-node\n", &text);
		EXPECT(!strncmp(text, "1 ", 2), "%s", text);
	}
	if (!wanted || by != node)
		EXPECT(!*listen_lines(own, 100), "an event of another node");
}

/* The event and the SMI message are those of the node that takes the interrupt. */
TEST_TIMEOUT(vm_fault, 120)
{
	on_nodes(faults);
}
