// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests queue exceptions: delivery to a runtime that enabled them, and to one that did not. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"
#include "watch.h"

/* Exceptions of invalid packets: dispatch dimensions, and an unknown packet type. */
#define DIMENSIONS KFD_EC_MASK(EC_QUEUE_PACKET_DISPATCH_DIM_INVALID)
#define UNKNOWN KFD_EC_MASK(EC_QUEUE_PACKET_UNSUPPORTED)

TEST(runtime_enable_only_once)
{
	struct kfd_queue q;
	struct kfd k;

	fixture_open(&k);
	/* Disabling is harmless when not enabled. */
	EXPECT_OK(enable_runtime(&k, 0));
	EXPECT_OK(enable_runtime(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
	EXPECT_RET(enable_runtime(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK), -EBUSY);
	EXPECT_OK(enable_runtime(&k, 0));
	EXPECT_OK(enable_runtime(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK |
					     KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK));
	EXPECT_OK(enable_runtime(&k, 0));
	ASSERT_OK(kfd_queue_create(&k, &q, 64));
	EXPECT_RET(enable_runtime(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK), -EEXIST);
	EXPECT_OK(enable_runtime(&k, 0));
	EXPECT_OK(kfd_queue_destroy(&q));
	EXPECT_OK(enable_runtime(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
}

/* A process with a queue that reports exceptions at `payload`. */
struct watched {
	struct kfd k;
	struct kfd_queue q;
	struct kfd_context_save_area_header *header;
	volatile uint64_t *payload;
	uint32_t event;
};

static void watch_queue(struct watched *w)
{
	ASSERT_OK(kfd_queue_create(&w->k, &w->q, 64));
	ASSERT_OK(kfd_event_create(&w->k, KFD_IOC_EVENT_SIGNAL, true, &w->event));
	w->payload =
		mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(w->payload != MAP_FAILED);
	w->header = w->q.cwsr->va;
	w->header->err_payload_addr = kfd_va((void *)w->payload);
	w->header->err_event_id = w->event;
}

static void watch(struct watched *w, bool enable)
{
	fixture_open(&w->k);
	if (enable)
		ASSERT_OK(enable_runtime(&w->k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
	watch_queue(w);
}

static void submit_nonsense(struct watched *w, uint16_t type)
{
	struct aql_dispatch packet = { .header = type };

	kfd_queue_ring(&w->q, kfd_queue_write(&w->q, &packet));
}

static int wait_for_event(struct watched *w, uint32_t ms)
{
	struct kfd_event_data data = { .event_id = w->event };
	uint32_t result = 99;
	int ret = kfd_event_wait(&w->k, &data, 1, true, ms, &result);

	return ret ? ret : result == KFD_IOC_WAIT_RESULT_COMPLETE ? 0 : -ETIME;
}

TEST(bad_packet_sets_payload)
{
	struct watched w;

	watch(&w, true);
	/* A pending payload stays until the runtime takes it. */
	*w.payload = KFD_EC_MASK(EC_QUEUE_NEW);
	submit_nonsense(&w, 2);
	ASSERT_OK(wait_for_event(&w, WAIT_MS));
	EXPECT_EQ(*w.payload, KFD_EC_MASK(EC_QUEUE_NEW) | DIMENSIONS);
	EXPECT_OK(kfd_queue_destroy(&w.q));
}

/* Waits until the main thread, which is given, has exited. */
static void wait_for_leader(void)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	for (int i = 0; i < 500 && state != 'Z'; i++) {
		FILE *f = fopen(path, "r");

		ASSERT(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1);
		fclose(f);
		usleep(10000);
	}
	ASSERT_EQ(state, 'Z');
}

static void *without_leader(void *data)
{
	struct watched *w = data;

	wait_for_leader();
	submit_nonsense(w, 2);
	ASSERT_OK(wait_for_event(w, WAIT_MS));
	EXPECT_EQ(*w->payload, DIMENSIONS);
	ktap_end();
	return NULL;
}

static void leader_exits(void *data)
{
	static struct watched w;
	pthread_t thread;

	(void)data;
	watch(&w, true);
	ASSERT(!pthread_create(&thread, NULL, without_leader, &w));
	pthread_exit(NULL);
}

/* The main thread has exited, others have not. */
TEST(main_thread_has_exited)
{
	EXPECT_OK(ktap_in_child(leader_exits, NULL));
}

TEST(payload_is_per_queue)
{
	volatile uint64_t *second;
	struct watched w;
	struct kfd_queue q;

	watch(&w, true);
	ASSERT_OK(kfd_queue_create(&w.k, &q, 64));
	second = w.payload + 1;
	memcpy(q.cwsr->va, w.header, sizeof(*w.header));
	((struct kfd_context_save_area_header *)q.cwsr->va)->err_payload_addr =
		kfd_va((void *)second);
	submit_nonsense(&w, 7);
	ASSERT_OK(wait_for_event(&w, WAIT_MS));
	EXPECT_EQ(*w.payload, UNKNOWN);
	EXPECT_EQ(*second, 0);
	EXPECT_OK(kfd_queue_destroy(&q));
}

/* Only agents other than a GPU execute agent dispatch packets. */
TEST(agent_dispatch_is_unsupported)
{
	struct watched w;

	watch(&w, true);
	submit_nonsense(&w, 4);
	ASSERT_OK(wait_for_event(&w, WAIT_MS));
	EXPECT_EQ(*w.payload, UNKNOWN);
	EXPECT_OK(kfd_queue_destroy(&w.q));
}

/* MES removes the queue while all are suspended, for good. Others go on. */
TEST(invalid_packet_unmaps_the_queue)
{
	struct aql_dispatch packet = { .header = AQL_KERNEL_DISPATCH };
	struct kfd_queue bad;
	struct fixture f;
	char *text;

	watch_need_events();
	need_mes();
	fixture_launch(&f);
	ASSERT_OK(kfd_queue_create(&f.k, &bad, 64));
	watch_start_only("rkfd_mes_submit", NULL);
	kfd_queue_ring(&bad, kfd_queue_write(&bad, &packet));
	sleep(1);
	EXPECT(fixture_works(&f));
	text = watch_stop();
	EXPECT_EQ(watch_count(text, "op=SUSPEND "), 1);
	EXPECT_EQ(watch_count(text, "op=REMOVE_QUEUE "), 1);
	EXPECT_EQ(watch_count(text, "op=RESUME "), 1);
	EXPECT_EQ(watch_count(text, "op=ADD_QUEUE "), 0);
	free(text);
	watch_start_only("rkfd_mes_submit", NULL);
	EXPECT_OK(fixture_update_queue(&bad, 100));
	EXPECT_OK(kfd_queue_destroy(&bad));
	text = watch_stop();
	EXPECT_EQ(watch_count(text, "op=ADD_QUEUE "), 0);
	EXPECT_EQ(watch_count(text, "op=REMOVE_QUEUE "), 0);
	free(text);
	EXPECT(fixture_works(&f));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

/* Without RUNTIME_ENABLE the exception is reported by the queue's own signal only. */
TEST(no_payload_without_runtime_enable)
{
	struct watched w;

	watch(&w, false);
	submit_nonsense(&w, 2);
	EXPECT_RET(wait_for_event(&w, 500), -ETIME);
	EXPECT_EQ(*w.payload, 0);
}

/*
 * Payload addresses that are unmapped, of the kernel, or read-only: the event is signalled anyway.
 */
TEST(bad_payload_address)
{
	void *read_only = mmap(NULL, KFD_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t addresses[] = { 0, 8, KERNEL_ADDRESS, ~7ull, kfd_va(read_only) };

	struct watched w;

	fixture_open(&w.k);
	ASSERT_OK(enable_runtime(&w.k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
	for (unsigned int i = 0; i < sizeof(addresses) / sizeof(*addresses); i++) {
		watch_queue(&w);
		w.header->err_payload_addr = addresses[i];
		submit_nonsense(&w, 2);
		EXPECT_OK(wait_for_event(&w, WAIT_MS));
		EXPECT_OK(kfd_queue_destroy(&w.q));
	}
}

TEST(bad_payload_event)
{
	struct watched w;

	watch(&w, true);
	w.header->err_event_id = 4000;
	submit_nonsense(&w, 2);
	for (int i = 0; i < 200 && !*w.payload; i++)
		usleep(100000);
	EXPECT_EQ(*w.payload, DIMENSIONS);
	EXPECT_OK(kfd_queue_destroy(&w.q));
}

/* Exceptions are not delivered after the runtime was disabled. */
TEST(runtime_disabled)
{
	struct watched w;

	watch(&w, true);
	EXPECT_OK(enable_runtime(&w.k, 0));
	submit_nonsense(&w, 2);
	EXPECT_RET(wait_for_event(&w, 500), -ETIME);
	EXPECT_EQ(*w.payload, 0);
	EXPECT_OK(kfd_queue_destroy(&w.q));
}

/*
 * A queue with the doorbell of a destroyed one does not receive that queue's exceptions. The first
 * packet is executed or not: nothing waits for it.
 */
TEST(doorbell_is_reused)
{
	struct watched w;

	watch(&w, true);
	submit_nonsense(&w, 2);
	EXPECT_OK(kfd_queue_destroy(&w.q));
	watch_queue(&w);
	EXPECT_RET(wait_for_event(&w, 500), -ETIME);
	EXPECT_EQ(*w.payload, 0);
	submit_nonsense(&w, 2);
	EXPECT_OK(wait_for_event(&w, WAIT_MS));
	EXPECT_EQ(*w.payload, DIMENSIONS);
	EXPECT_OK(kfd_queue_destroy(&w.q));
}
