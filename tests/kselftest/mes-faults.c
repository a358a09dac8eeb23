// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests an MES that rejects a frame, omits a status, is slow, or cannot preempt queues: the model
 * with the knob mes.error, mes.no_status, mes.late or hws.stuck_xcc. Only frames about user queues
 * count.
 */
#define _GNU_SOURCE
#include <drm/amdgpu_drm.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cs.h"
#include "device.h"
#include "queue-calls.h"
#include "userptr.h"
#include "watch.h"

/* Upper bound of an ioctl with any fault of the firmware, in seconds. */
#define LONGEST_S 10.0
/* Bound on a call one of whose frames fails, which MES does not answer within 2.1 s. */
#define FRAME_S ((2.1 + 1) * ktap_time_factor())

/* A process with a queue from before the fault, which works all the time. */
struct bystander {
	atomic_uint ready, pause, paused, stop;
	pid_t pid;
};

static int stand_by(struct bystander *b)
{
	struct kfd_bo *kept;
	struct fixture f;

	fixture_launch(&f);
	kept = fixture_keep(&f.k);
	ASSERT(fixture_works(&f));
	atomic_store(&b->ready, 1);
	while (!atomic_load(&b->stop)) {
		ASSERT(fixture_works(&f));
		while (atomic_load(&b->pause) && !atomic_load(&b->stop)) {
			atomic_store(&b->paused, 1);
			usleep(1000);
		}
		usleep(20000);
	}
	ASSERT(fixture_works(&f));
	fixture_expect_kept(kept);
	ASSERT_OK(kfd_queue_destroy(&f.q));
	ktap_end();
}

static struct bystander *bystander_start(void)
{
	struct bystander *b =
		mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	pid_t pid;

	ASSERT(b != MAP_FAILED);
	pid = fork_child();
	if (!pid)
		_exit(stand_by(b));
	b->pid = pid;
	for (int i = 0; i < 30000 && !atomic_load(&b->ready); i++)
		usleep(1000);
	ASSERT(b->ready, "other process does not work");
	return b;
}

/* Waits until it has no waves, and keeps it so. */
static void bystander_pause(struct bystander *b)
{
	atomic_store(&b->pause, 1);
	for (int i = 0; i < 30000 && !atomic_load(&b->paused); i++)
		usleep(1000);
	ASSERT(b->paused, "other process does not work");
}

static void bystander_end(struct bystander *b)
{
	int status;

	atomic_store(&b->stop, 1);
	ASSERT(waitpid(b->pid, &status, 0) == b->pid);
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "other process: %#x", status);
}

/* Bytes of system memory mapped for the GPU, the driver's own included. */
static uint64_t gtt_used(struct kfd *k)
{
	uint64_t used = 0;
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&used),
					   .return_size = sizeof(used),
					   .query = AMDGPU_INFO_GTT_USAGE };

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_INFO, &request));
	return used;
}

/*
 * Creates and destroys queues; one of their frames fails, with $MES_REFUSES an ADD_QUEUE. No queue
 * is lost, as none hangs.
 */
static void provoke_fault(void *data)
{
	const unsigned int refuses = getenv("MES_REFUSES") ? 1 : 0;
	double took, longest = 0;
	unsigned int refused = 0;
	struct fixture f;
	struct kfd *k = &f.k;
	uint32_t event;

	(void)data;
	fixture_launch(&f);
	ASSERT_OK(kfd_event_create(k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	for (int i = 0; i < 6; i++) {
		double start = seconds_now();
		struct kfd_queue q;
		int ret = kfd_queue_create(k, &q, 64);

		took = seconds_now() - start;
		longest = took > longest ? took : longest;
		EXPECT(took < FRAME_S, "CREATE_QUEUE took %.1f s", took);
		if (ret) {
			refused++;
			EXPECT_EQ(ret, -ETIMEDOUT);
			continue;
		}
		start = seconds_now();
		EXPECT_OK(kfd_queue_destroy(&q));
		took = seconds_now() - start;
		longest = took > longest ? took : longest;
		EXPECT(took < FRAME_S, "DESTROY_QUEUE took %.1f s", took);
	}
	ktap_note("the longest call took %.1f s", longest);
	EXPECT_EQ(event_result(k, event, 1000), KFD_IOC_WAIT_RESULT_TIMEOUT);
	EXPECT_EQ(refused, refuses);
	EXPECT(fixture_works(&f));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

TEST_TIMEOUT(failed_frame_is_survived, 120)
{
	struct bystander *b;
	uint64_t before;
	struct kfd k;

	need_mes();
	fixture_open_only(&k);
	before = gtt_used(&k);
	b = bystander_start();
	EXPECT_OK(ktap_in_child(provoke_fault, NULL));
	bystander_end(b);
	/* A process is torn down asynchronously. */
	for (int i = 0; i < 5000 && gtt_used(&k) != before; i++)
		usleep(1000);
	EXPECT_EQ(gtt_used(&k), before);
}

/*
 * Creates and destroys queues; one of their frames fails, and the driver may reset the GPU. Exits
 * without a result: its memory is lost then.
 */
static void provoke_reset(void)
{
	struct fixture f;

	fixture_open(&f.k);
	for (int i = 0; i < 6; i++) {
		double start = seconds_now();
		struct kfd_queue q;
		int ret = kfd_queue_create(&f.k, &q, 64);

		EXPECT(seconds_now() - start < LONGEST_S, "CREATE_QUEUE took %.1f s",
		       seconds_now() - start);
		/* EIO while the GPU is reset. */
		if (ret) {
			EXPECT(ret == -ETIMEDOUT || ret == -EIO, "expected ETIMEDOUT, got %s",
			       ktap_errno_name(ret));
			ktap_note("CREATE_QUEUE %d: %s", i, ktap_errno_name(ret));
			continue;
		}
		start = seconds_now();
		ret = kfd_queue_destroy(&q);
		EXPECT(seconds_now() - start < LONGEST_S, "DESTROY_QUEUE took %.1f s",
		       seconds_now() - start);
		if (ret)
			ktap_note("DESTROY_QUEUE %d: %s", i, ktap_errno_name(ret));
	}
}

/* A new process works, at the latest when a reset has ended. */
TEST_TIMEOUT(works_after_failed_frame, 120)
{
	double start;
	pid_t child;
	int status;

	need_mes();
	child = fork_child();
	if (!child) {
		provoke_reset();
		ktap_end();
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "status %#x", status);
	start = seconds_now();
	for (;;) {
		child = fork_child();
		if (!child) {
			struct kfd_queue q;
			struct fixture f;

			/* Memory of a process that exists during the reset is lost. */
			if (kfd_open(&f.k) || kfd_queue_create(&f.k, &q, 64))
				_exit(1);
			_exit(kfd_queue_destroy(&q) ? 1 : 0);
		}
		ASSERT(waitpid(child, &status, 0) == child);
		if (!status)
			break;
		ASSERT(seconds_now() - start < 60, "no queue after %.0f s", seconds_now() - start);
		usleep(500000);
	}
	ktap_note("a queue is created %.1f s later", seconds_now() - start);
	usleep(2000000);
	struct fixture f;

	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

/* A queue with a wave that is not preempted, and another one. */
struct stuck {
	struct fixture f;
	struct kfd_queue second;
	uint32_t event;
};

static void get_stuck(struct stuck *s)
{
	fixture_launch(&s->f);
	ASSERT_OK(kfd_queue_create(&s->f.k, &s->second, 64));
	ASSERT_OK(kfd_event_create(&s->f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &s->event));
	fixture_endless(&s->f, 1);
}

/* Expects that the stuck queue alone was lost. */
static void expect_lost(struct stuck *s)
{
	uint32_t *words = (uint32_t *)s->f.data->va + 256;

	expect_hang_event(&s->f.k, s->event, WAIT_MS);
	EXPECT_OK(fixture_fill(&s->f, &s->second, words, 64, 7));
	EXPECT_EQ(((volatile uint32_t *)words)[63], 7);
	EXPECT_OK(kfd_queue_destroy(&s->second));
}

static int destroy_stuck(struct stuck *s)
{
	struct kfd_ioctl_destroy_queue_args args = { .queue_id = s->f.q.id };
	double start = seconds_now();
	int ret = kfd_ioctl(s->f.k.fd, AMDKFD_IOC_DESTROY_QUEUE, &args);

	EXPECT(seconds_now() - start < LONGEST_S * ktap_time_factor(), "DESTROY_QUEUE took %.1f s",
	       seconds_now() - start);
	return ret;
}

/*
 * A queue that cannot be preempted is reset: its process gets a HW_EXCEPTION event; its other queue
 * and other processes are unaffected. Contexts of the render node see a reset.
 */
TEST_TIMEOUT(hung_queue_is_reset, 120)
{
	int uevents = uevents_open();
	struct bystander *b;
	struct stuck s;
	struct cs cs;

	need_mes();
	cs_open(&cs);
	cs_expect_resets(&cs, false);
	b = bystander_start();
	get_stuck(&s);
	/* Waves of the bystander would hang, too. */
	bystander_pause(b);
	EXPECT_OK(destroy_stuck(&s));
	bystander_end(b);
	expect_lost(&s);
	cs_expect_resets(&cs, true);
	EXPECT(uevents_have(uevents, "WEDGED=none", WAIT_MS));
	EXPECT_OK(ktap_in_child(fixture_lives, NULL));
}

static void wait_for_loss(void *data)
{
	int *pipes = data;
	struct stuck s;
	char byte;

	get_stuck(&s);
	ASSERT(write(pipes[1], "", 1) == 1);
	ASSERT(read(pipes[2], &byte, 1) == 1);
	expect_lost(&s);
	EXPECT_RET(kfd_queue_stop(&s.f.q), 0);
}

/* All queues that hang are reset, those of other processes as well. */
TEST_TIMEOUT(all_hung_queues_are_reset, 120)
{
	struct bystander *b;
	struct stuck s;
	int pipes[4], status;
	pid_t child;
	char byte;

	need_mes();
	b = bystander_start();
	ASSERT(!pipe(pipes) && !pipe(pipes + 2));
	child = fork_child();
	if (!child) {
		wait_for_loss(pipes);
		ktap_end();
	}
	ASSERT(read(pipes[0], &byte, 1) == 1);
	get_stuck(&s);
	bystander_pause(b);
	EXPECT_OK(destroy_stuck(&s));
	ASSERT(write(pipes[3], "", 1) == 1);
	bystander_end(b);
	expect_lost(&s);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "status %#x", status);
	EXPECT_OK(ktap_in_child(fixture_lives, NULL));
}

/* Returns the doorbell of the first ADD_QUEUE that is recorded. */
static unsigned long doorbell_added(const char *text)
{
	const char *line = strstr(text, "op=ADD_QUEUE ");
	unsigned long doorbell;

	ASSERT(line && sscanf(line, "op=ADD_QUEUE ring=%*u doorbell=%lx", &doorbell) == 1);
	return doorbell;
}

/* Returns how many frames about a queue are recorded: of an operation, or of all with "". */
static unsigned int frames_about(const char *text, const char *op, unsigned long doorbell)
{
	unsigned int found = 0;
	char of[64];

	snprintf(of, sizeof(of), " doorbell=0x%lx ", doorbell);
	while ((text = strstr(text, "rkfd_mes_submit: "))) {
		const char *end = text + strcspn(text, "\n");
		const char *name = strstr(text, "op="), *queue = strstr(text, of);

		found += name && name < end && queue && queue < end &&
			 !strncmp(name + strlen("op="), op, strlen(op));
		text = end;
	}
	return found;
}

/* Has an MMU notifier evict the queues of the process, and waits until the others are restored. */
static void evict(struct stuck *s, struct pages *pages, uint32_t value)
{
	uint32_t *words = (uint32_t *)s->f.data->va + 256;

	ASSERT(!madvise(pages->cpu, pages->size, MADV_DONTNEED));
	EXPECT_OK(fixture_fill(&s->f, &s->second, words, 64, value));
	EXPECT_EQ(((volatile uint32_t *)words)[63], value);
}

/*
 * There is one attempt to preempt a queue that hangs. A second REMOVE_QUEUE only reports its reset
 * to MES; no later frame refers to it.
 */
TEST_TIMEOUT(lost_queue_is_not_removed_again, 120)
{
	unsigned long lost, other;
	struct pages pages;
	struct stuck s;
	char *text;

	need_mes();
	watch_need_events();
	watch_start_only("rkfd_mes_submit", NULL);
	fixture_launch(&s.f);
	text = watch_stop();
	lost = doorbell_added(text);
	free(text);
	watch_start_only("rkfd_mes_submit", NULL);
	ASSERT_OK(kfd_queue_create(&s.f.k, &s.second, 64));
	text = watch_stop();
	other = doorbell_added(text);
	free(text);
	ASSERT_OK(kfd_event_create(&s.f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &s.event));
	register_new(&s.f.k, MIB, &pages);
	memset(pages.cpu, 1, MIB);
	fixture_endless(&s.f, 1);

	watch_start_only("rkfd_mes_submit", NULL);
	evict(&s, &pages, 7);
	expect_hang_event(&s.f.k, s.event, WAIT_MS);
	text = watch_stop();
	EXPECT_EQ(frames_about(text, "REMOVE_QUEUE ", lost), 2);
	EXPECT_EQ(frames_about(text, "ADD_QUEUE ", lost), 0);
	EXPECT_EQ(watch_count(text, "op=SUSPEND "), 1);
	free(text);

	watch_start_only("rkfd_mes_submit", NULL);
	for (uint32_t i = 0; i < 3; i++) {
		memset(pages.cpu, 2, MIB);
		evict(&s, &pages, 8 + i);
	}
	EXPECT_RET(update(&s.f.k, s.f.q.id, kfd_va(s.f.q.ring->va), (uint32_t)s.f.q.ring->size, 0, 7),
		   -EACCES);
	EXPECT_OK(destroy_stuck(&s));
	text = watch_stop();
	EXPECT(frames_about(text, "REMOVE_QUEUE ", other) > 0);
	EXPECT(frames_about(text, "ADD_QUEUE ", other) > 0);
	EXPECT_EQ(frames_about(text, "", lost), 0);
	free(text);
	EXPECT_OK(kfd_queue_destroy(&s.second));
}

/* Replies are late and waited for. */
TEST_TIMEOUT(late_replies, 120)
{
	struct bystander *b;
	double start, took;
	struct fixture f;

	need_mes();
	b = bystander_start();
	fixture_launch(&f);
	for (int i = 0; i < 5; i++) {
		struct kfd_queue q;

		start = seconds_now();
		ASSERT_OK(kfd_queue_create(&f.k, &q, 64));
		took = seconds_now() - start;
		EXPECT(took > 0.05 && took < LONGEST_S, "CREATE_QUEUE took %.3f s", took);
		EXPECT(fixture_works(&f));
		ASSERT_OK(kfd_queue_destroy(&q));
	}
	EXPECT_OK(kfd_queue_destroy(&f.q));
	bystander_end(b);
}
