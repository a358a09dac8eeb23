// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests scheduling by MES: frames sent per queue operation, and each field of ADD_QUEUE.
 *
 * Expected values are those of the C driver: the layout is union MESAPI__ADD_QUEUE of
 * include/mes_v12_api_def.h, filled by add_queue_mes() of amdkfd/kfd_device_queue_manager.c and
 * mes_v12_0_add_hw_queue() of amdgpu/mes_v12_0.c. Frames are read from the trace event
 * rkfd_mes_submit.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../workloads/sdma-queue.h"
#include "fixture.h"
#include "watch.h"

#define FRAME_WORDS 64
#define MAX_FRAMES 512
#define SUBMIT "rkfd_mes_submit: "

struct frame {
	char op[32];
	uint32_t words[FRAME_WORDS];
};

struct frames {
	unsigned int count;
	struct frame all[MAX_FRAMES];
};

static struct frames seen;

static uint64_t quad(const struct frame *f, unsigned int at)
{
	return f->words[at] | (uint64_t)f->words[at + 1] << 32;
}

static void parse_frame(char *line, struct frame *f)
{
	char *op = strstr(line, "op="), *words = strstr(line, "words="), *end;

	memset(f, 0, sizeof(*f));
	ASSERT(op && words && sscanf(op, "op=%31[A-Z0-9_]", f->op) == 1, "%s", line);
	words += strlen("words=");
	for (unsigned int i = 0; i < FRAME_WORDS; i++) {
		words += strspn(words, "{, ");
		f->words[i] = (uint32_t)strtoul(words, &end, 16);
		ASSERT(end != words, "word %u of %s", i, line);
		words = end;
	}
}

/*
 * Stops recording and parses the frames. Skips on GPUs scheduled otherwise, which the recording
 * shows as well.
 */
static void stop_and_read(void)
{
	char *text = watch_stop(), *next;

	seen.count = 0;
	for (char *line = text; (line = strstr(line, SUBMIT)); line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = 0;
		ASSERT(seen.count < MAX_FRAMES);
		parse_frame(line, &seen.all[seen.count++]);
	}
	free(text);
}

static unsigned int frames_of(const char *op)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < seen.count; i++)
		n += !strcmp(seen.all[i].op, op);
	return n;
}

static const struct frame *frame_of(const char *op, unsigned int which)
{
	for (unsigned int i = 0; i < seen.count; i++)
		if (!strcmp(seen.all[i].op, op) && !which--)
			return &seen.all[i];
	ASSERT(false, "no frame %s", op);
	return NULL;
}

static void need_frames(struct kfd *k)
{
	struct kfd_queue q;
	char *text;
	bool runlist;

	watch_start();
	ASSERT_OK(kfd_queue_create(k, &q, 64));
	ASSERT_OK(kfd_queue_destroy(&q));
	text = watch_stop();
	runlist = strstr(text, "rkfd_runlist: ") && !strstr(text, SUBMIT);
	free(text);
	if (runlist)
		SKIP("queues of this GPU are scheduled by runlists");
}

TEST(one_frame_per_create_and_destroy)
{
	enum { QUEUES = 10 };
	struct kfd_queue q[QUEUES];
	struct kfd k;

	fixture_open(&k);
	need_frames(&k);
	watch_start();
	for (int i = 0; i < QUEUES; i++)
		ASSERT_OK(kfd_queue_create(&k, &q[i], 64));
	stop_and_read();
	EXPECT_EQ(frames_of("ADD_QUEUE"), QUEUES);
	EXPECT_EQ(frames_of("REMOVE_QUEUE"), 0);
	watch_start();
	for (int i = 0; i < QUEUES; i++)
		ASSERT_OK(kfd_queue_destroy(&q[i]));
	stop_and_read();
	EXPECT_EQ(frames_of("REMOVE_QUEUE"), QUEUES);
	EXPECT_EQ(frames_of("ADD_QUEUE"), 0);
}

TEST(dispatch_sends_no_frame)
{
	struct fixture f;

	fixture_launch(&f);
	need_frames(&f.k);
	EXPECT(fixture_works(&f));
	watch_start();
	for (int i = 0; i < 50; i++)
		EXPECT(fixture_works(&f));
	stop_and_read();
	EXPECT_EQ(seen.count, 0);
}

/* Other queues are not touched, however many there are. */
TEST(update_removes_and_adds_one_queue)
{
	struct kfd_queue q[4];
	struct kfd k;

	fixture_open(&k);
	need_frames(&k);
	for (int i = 0; i < 4; i++)
		ASSERT_OK(kfd_queue_create(&k, &q[i], 64));
	watch_start();
	EXPECT_OK(fixture_update_queue(&q[1], 100));
	stop_and_read();
	EXPECT_EQ(frames_of("REMOVE_QUEUE"), 1);
	EXPECT_EQ(frames_of("ADD_QUEUE"), 1);
	watch_start();
	EXPECT_OK(fixture_update_queue(&q[1], 0));
	stop_and_read();
	EXPECT_EQ(frames_of("REMOVE_QUEUE"), 1);
	EXPECT_EQ(frames_of("ADD_QUEUE"), 0);
	watch_start();
	EXPECT_OK(kfd_queue_destroy(&q[1]));
	stop_and_read();
	EXPECT_EQ(frames_of("REMOVE_QUEUE"), 0);
	for (int i = 0; i < 4; i++)
		if (i != 1)
			EXPECT_OK(kfd_queue_destroy(&q[i]));
}

/* A field: first dword, number of dwords, value. */
struct field {
	const char *name;
	unsigned int word, words;
	enum { IS, PAGE_NOT_0, NOT_0 } how;
	uint64_t value;
};

#define U32(name, byte, value) { name, (byte) / 4, 1, IS, value }
#define U64(name, byte, value) { name, (byte) / 4, 2, IS, value }

static unsigned int pasid(void)
{
	char path[128], *text;
	unsigned int value;

	snprintf(path, sizeof(path), "/sys/kernel/debug/kfd/process/%d/pasid", getpid());
	text = watch_read(path);
	value = (unsigned int)strtoul(text, NULL, 0);
	free(text);
	return value;
}

/* Every other dword of the frame is 0. */
static void check_fields(const struct frame *f, const struct field *fields, size_t count)
{
	bool known[FRAME_WORDS] = { false };

	for (size_t i = 0; i < count; i++) {
		const struct field *x = &fields[i];
		uint64_t got = x->words == 2 ? quad(f, x->word) : f->words[x->word];

		for (unsigned int w = 0; w < x->words; w++)
			known[x->word + w] = true;
		if (x->how == IS)
			EXPECT(got == x->value, "%s is %#llx, not %#llx", x->name,
			       (unsigned long long)got, (unsigned long long)x->value);
		else
			EXPECT(got && (x->how == NOT_0 || got % KFD_PAGE == 0), "%s is %#llx",
			       x->name, (unsigned long long)got);
	}
	for (unsigned int i = 0; i < FRAME_WORDS; i++)
		EXPECT(known[i] || !f->words[i], "word %u is %#x", i, f->words[i]);
}

/* Common to all frames. mqd_addr, wptr_addr and doorbell_offset are checked separately. */
static void check_frame(const struct frame *f, uint32_t type, uint32_t ring_bytes, bool aql)
{
	enum { KFD_PROCESS = 1 << 9, TRAP_EN = 1 << 10, AQL = 1 << 11 };
	const struct field fields[] = {
		U32("header: type, opcode, dwsize", 0, 1 | 2 << 4 | 64 << 12),
		U32("process_id", 4, pasid()),
		{ "page_table_base_addr", 8 / 4, 2, NOT_0, 0 },
		U64("process_va_start", 16, 0),
		U64("process_va_end: pages of 48 bits", 24, (1ull << 36) - 1),
		U64("process_quantum: 10 ms", 32, 100000),
		{ "process_context_addr", 40 / 4, 2, PAGE_NOT_0, 0 },
		U64("gang_quantum: 1 ms", 48, 10000),
		{ "gang_context_addr", 56 / 4, 2, PAGE_NOT_0, 0 },
		U32("inprocess_gang_priority: normal", 64, 1),
		U32("gang_global_priority_level: normal", 68, 1),
		{ "doorbell_offset", 72 / 4, 1, NOT_0, 0 },
		{ "mqd_addr", 80 / 4, 2, NOT_0, 0 },
		{ "wptr_addr", 88 / 4, 2, NOT_0, 0 },
		U64("h_context", 96, 0),
		U64("h_queue", 104, 0),
		U32("queue_type", 112, type),
		U32("gds_base", 116, 0),
		U32("kfd_queue_size: dwords", 120, ring_bytes / 4),
		U32("gws_base", 124, 0),
		U32("gws_size", 128, 0),
		U32("oa_mask", 132, 0),
		{ "trap_handler_addr", 136 / 4, 2, PAGE_NOT_0, 0 },
		{ "vm_context_cntl", 144 / 4, 1, NOT_0, 0 },
		U32("flags", 148, KFD_PROCESS | TRAP_EN | (aql ? AQL : 0)),
		{ "api_status.api_completion_fence_addr", 152 / 4, 2, NOT_0, 0 },
		U64("api_status.api_completion_fence_value", 160, 1),
		{ "tma_addr", 168 / 4, 2, NOT_0, 0 },
	};

	check_fields(f, fields, sizeof(fields) / sizeof(fields[0]));
	/* The page table root is valid; the hub context is enabled with four levels. */
	EXPECT(f->words[8 / 4] & 1, "%#x", f->words[8 / 4]);
	EXPECT_EQ(f->words[144 / 4] & 7, 1 | 3 << 1);
}

/* doorbell_offset: byte offset within the process's doorbells, and index on the BAR in dwords. */
static void check_doorbell(const struct frame *f, uint64_t offset)
{
	EXPECT_EQ(f->words[72 / 4] * 4ull % KFD_DOORBELL_SLICE, offset % KFD_DOORBELL_SLICE);
}

/* wptr_addr is a GART address of the write pointer's page. */
static void check_wptr(const struct frame *f, uint64_t va)
{
	EXPECT_EQ(quad(f, 88 / 4) % KFD_PAGE, va % KFD_PAGE);
	EXPECT(quad(f, 88 / 4) != va, "not a GART address: %#llx", (unsigned long long)va);
}

TEST(add_queue_fields_of_compute_queue)
{
	struct kfd_queue q[2];
	const struct frame *f, *second;
	struct kfd k;

	fixture_open(&k);
	need_frames(&k);
	watch_start();
	for (int i = 0; i < 2; i++)
		ASSERT_OK(kfd_queue_create(&k, &q[i], 128));
	stop_and_read();
	f = frame_of("ADD_QUEUE", 0);
	second = frame_of("ADD_QUEUE", 1);
	check_frame(f, 1, 128 * 64, true);
	check_frame(second, 1, 128 * 64, true);
	check_doorbell(f, q[0].doorbell_offset);
	check_doorbell(second, q[1].doorbell_offset);
	check_wptr(f, kfd_va((void *)&q[0].q->write_dispatch_id));
	check_wptr(second, kfd_va((void *)&q[1].q->write_dispatch_id));
	/* One process, two gangs. */
	EXPECT_EQ(quad(f, 8 / 4), quad(second, 8 / 4));
	EXPECT_EQ(quad(f, 40 / 4), quad(second, 40 / 4));
	EXPECT(quad(f, 56 / 4) != quad(second, 56 / 4));
	EXPECT(quad(f, 80 / 4) != quad(second, 80 / 4));
	EXPECT(quad(f, 88 / 4) != quad(second, 88 / 4));
	EXPECT(f->words[72 / 4] != second->words[72 / 4]);
}

TEST(add_queue_fields_of_sdma_queue)
{
	struct sdma_queue q;
	const struct frame *f;
	struct kfd k;

	fixture_open(&k);
	need_frames(&k);
	watch_start();
	ASSERT_OK(sdma_queue_create(&k, &q, KFD_IOC_QUEUE_TYPE_SDMA, 0, 8192));
	stop_and_read();
	f = frame_of("ADD_QUEUE", 0);
	check_frame(f, 2, 8192, false);
	check_doorbell(f, q.doorbell_offset);
	check_wptr(f, kfd_va((void *)q.wptr));
	EXPECT_OK(sdma_queue_destroy(&q));
}

/* REMOVE_QUEUE identifies the queue as ADD_QUEUE did. */
TEST(remove_queue_fields)
{
	const struct frame *added, *removed;
	struct frame copy;
	struct kfd_queue q;
	struct kfd k;

	fixture_open(&k);
	need_frames(&k);
	watch_start();
	ASSERT_OK(kfd_queue_create(&k, &q, 64));
	stop_and_read();
	added = frame_of("ADD_QUEUE", 0);
	copy = *added;
	watch_start();
	ASSERT_OK(kfd_queue_destroy(&q));
	stop_and_read();
	removed = frame_of("REMOVE_QUEUE", 0);
	EXPECT_EQ(removed->words[0], 1 | 3 << 4 | 64 << 12);
	EXPECT_EQ(removed->words[4 / 4], copy.words[72 / 4]);
	EXPECT_EQ(quad(removed, 8 / 4), quad(&copy, 56 / 4));
	EXPECT_EQ(removed->words[16 / 4], 0);
	EXPECT(quad(removed, 24 / 4) != 0);
	EXPECT_EQ(quad(removed, 32 / 4), 1);
}
