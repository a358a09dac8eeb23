// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests SDMA through libdrm: copies and fills of all sizes in all directions, every packet type,
 * and one trace event per job.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../workloads/kfd.h"
#include "drm.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

/* Kinds of memory; the third is user memory, mapped by KFD into the same address space. */
enum kind { IN_VRAM, IN_GTT, IN_USER, KINDS };

static const char *const names[KINDS] = { "VRAM", "GTT", "user memory" };

struct area {
	uint64_t va;
	void *cpu;
	struct mem mem;
};

/* Maps `size` bytes of user memory at the same GPU address in the VM of the render node. */
static bool user_area(struct gpu *g, uint64_t size, struct area *a)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args alloc = { 0 };
	struct kfd_ioctl_map_memory_to_gpu_args map = { .n_devices = 1 };
	static struct kfd k;
	int ret;

	if (kfd_open_device(&k) || kfd_topology_find_gpu(&k.node))
		return false;
	k.drm = g->fd;
	if (kfd_acquire_vm(&k))
		return false;
	a->cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(a->cpu != MAP_FAILED);
	a->va = kfd_va(a->cpu);
	alloc.va_addr = a->va;
	alloc.mmap_offset = a->va;
	alloc.size = size;
	alloc.gpu_id = k.node.gpu_id;
	alloc.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
		      KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
	ret = kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &alloc);
	if (ret == -EOPNOTSUPP)
		return false;
	ASSERT_OK(ret);
	map.handle = alloc.handle;
	map.device_ids_array_ptr = kfd_va(&k.node.gpu_id);
	ASSERT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map));
	return true;
}

/*
 * Two areas of `size` bytes of each kind, in the BO list of one stream. Returns the number of
 * kinds.
 */
static int areas(struct gpu *g, struct stream *s, uint64_t size, struct area a[KINDS][2])
{
	const struct mem *mems[4];
	int kinds = KINDS;

	drm_open(g);
	for (int n = 0; n < 2 && kinds == KINDS; n++)
		if (!user_area(g, size, &a[IN_USER][n]))
			kinds = IN_USER;
	for (int i = 0; i < 4; i++) {
		struct area *one = &a[i / 2][i % 2];

		mem_create(g, size, i / 2 == IN_VRAM ? VRAM : GTT, &one->mem);
		one->va = one->mem.va;
		one->cpu = one->mem.cpu;
		mems[i] = &one->mem;
	}
	stream_create(g, s, 0, NORMAL, 1, 1024);
	stream_uses(s, mems, 4);
	return kinds;
}

static void number(uint32_t *words, uint64_t count, uint32_t seed)
{
	for (uint64_t i = 0; i < count; i++)
		words[i] = seed + (uint32_t)i * 0x9e3779b1u;
}

static bool all(const uint32_t *words, uint64_t from, uint64_t to, uint32_t value)
{
	for (uint64_t i = from; i < to; i++)
		if (words[i] != value)
			return EXPECT(false, "word %llu is %#x, not %#x", (unsigned long long)i,
				      words[i], value);
	return true;
}

static bool numbered(const uint32_t *words, uint64_t from, uint64_t to, uint32_t seed,
		     int64_t shift)
{
	for (uint64_t i = from; i < to; i++) {
		uint32_t wanted = seed + (uint32_t)((int64_t)i + shift) * 0x9e3779b1u;

		if (words[i] != wanted)
			return EXPECT(false, "word %llu is %#x, not %#x", (unsigned long long)i,
				      words[i], wanted);
	}
	return true;
}

#define SIZE (4 * MIB)

/* Sizes around every boundary, at unaligned offsets; the bytes around the target are checked. */
TEST_TIMEOUT(copies, 300)
{
	static const uint32_t sizes[] = { 4,	8,    60,    64,    68,	     252,     4092,
					  4096, 4100, 65536, 65540, MIB - 4, MIB + 4, 3 * MIB };
	struct area a[KINDS][2];
	struct stream s;
	struct gpu g;
	int kinds = areas(&g, &s, SIZE, a);

	for (int from = 0; from < kinds; from++) {
		for (int to = 0; to < kinds; to++) {
			for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
				uint32_t words = sizes[i] / 4,
					 seed = (uint32_t)(from * 3 + to) << 20 | (uint32_t)i;
				/*
				 * In dwords: at the end of a page, at another offset of another
				 * page.
				 */
				uint32_t at = 1024 - (i % 3), source = 2048 + i % 5;
				uint32_t *src = a[from][0].cpu, *dst = a[to][1].cpu;

				number(src + source, words, seed);
				dst[at - 1] = dst[at + words] = 0xfee1dead;
				dst[at] = dst[at + words - 1] = 0;
				stream_copy(&s, a[to][1].va + at * 4, a[from][0].va + source * 4,
					    sizes[i]);
				if (!EXPECT(dst[at - 1] == 0xfee1dead &&
					    dst[at + words] == 0xfee1dead) ||
				    !numbered(dst + at, 0, words, seed, 0)) {
					ktap_note("%u bytes from %s to %s", sizes[i], names[from],
						  names[to]);
					ktap_end();
				}
			}
		}
	}
	if (kinds < KINDS)
		ktap_note("user memory left out: this driver does not map it for the GPU");
}

TEST_TIMEOUT(fills, 120)
{
	static const uint32_t sizes[] = { 4, 8, 64, 4092, 4096, 4100, 65540, MIB, 3 * MIB + 4 };
	struct area a[KINDS][2];
	struct stream s;
	struct gpu g;
	int kinds = areas(&g, &s, SIZE, a);

	for (int to = 0; to < kinds; to++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			uint32_t *dst = a[to][0].cpu, words = sizes[i] / 4, at = 1023,
				 value = 0xa5000000u + (uint32_t)i;

			dst[at - 1] = dst[at + words] = 0xfee1dead;
			stream_fill(&s, a[to][0].va + at * 4, value, sizes[i]);
			EXPECT(dst[at - 1] == 0xfee1dead && dst[at + words] == 0xfee1dead,
			       "%u bytes in %s", sizes[i], names[to]);
			ASSERT(all(dst + at, 0, words, value), "%u bytes in %s", sizes[i],
			       names[to]);
		}
	}
}

/*
 * 1 GiB is the limit of one packet. The CPU checks samples only: dwords that the GPU wrote to the
 * source before, and their neighbours.
 */
static void copy_a_gibibyte(uint32_t from, uint32_t to)
{
	enum { SAMPLES = 64 };
	const struct mem *mems[3];
	struct mem src, dst, look;
	struct stream s;
	struct gpu g;
	uint32_t *p, *words;
	int ret;

	drm_open(&g);
	ret = mem_try(&g, GIB, from, 0, false, &src);
	if (!ret)
		ret = mem_try(&g, GIB, to, 0, false, &dst);
	if (ret == -ENOMEM)
		SKIP("not enough memory for two BOs of 1 GiB");
	ASSERT_OK(ret);
	mem_create(&g, 65536, GTT, &look);
	stream_create(&g, &s, 0, NORMAL, 1, 4096);
	mems[0] = &src;
	mems[1] = &dst;
	mems[2] = &look;
	stream_uses(&s, mems, 3);

	stream_fill(&s, src.va, 0x11111111, GIB);
	stream_fill(&s, dst.va, 0x22222222, GIB);
	p = stream_begin(&s);
	for (uint32_t i = 0; i < SAMPLES; i++)
		sdma_write(&p, src.va + i * (GIB / SAMPLES) + i * 4096 + i * 4, 1, 0x33330000 + i);
	stream_run(&s, p);
	p = stream_begin(&s);
	sdma_copy(&p, dst.va, src.va, GIB);
	stream_run(&s, p);
	p = stream_begin(&s);
	for (uint32_t i = 0; i < SAMPLES; i++)
		sdma_copy(&p, look.va + i * 64, dst.va + i * (GIB / SAMPLES) + i * 4096, 512);
	sdma_copy(&p, look.va + 32768, dst.va + GIB - 64, 64);
	stream_run(&s, p);
	words = look.cpu;
	for (uint32_t i = 0; i < SAMPLES; i++) {
		/* Each sample of 512 bytes is overwritten from byte 64 on by the next one. */
		for (uint32_t w = 0; w < 16; w++)
			ASSERT_EQ(words[i * 16 + w], w == i ? 0x33330000 + i : 0x11111111);
	}
	ASSERT(all(words + 8192, 0, 16, 0x11111111));
	mem_destroy(&src);
	mem_destroy(&dst);
}

TEST_TIMEOUT(copy_1gib_vram_to_vram, 120)
{
	copy_a_gibibyte(VRAM, VRAM);
}

TEST_TIMEOUT(copy_1gib_vram_to_gtt, 180)
{
	copy_a_gibibyte(VRAM, GTT);
}

TEST_TIMEOUT(copy_1gib_gtt_to_vram, 180)
{
	copy_a_gibibyte(GTT, VRAM);
}

TEST(packets)
{
	struct area a[KINDS][2];
	uint32_t *p, *src, *dst, *dst2;
	uint64_t to, from, *clock;
	struct stream s;
	struct gpu g;

	areas(&g, &s, SIZE, a);
	src = a[IN_GTT][0].cpu;
	dst = a[IN_GTT][1].cpu;
	dst2 = a[IN_VRAM][1].cpu;
	from = a[IN_GTT][0].va;
	to = a[IN_GTT][1].va;
	memset(dst, 0, 65536);
	memset(dst2, 0, 65536);
	number(src, 16384, 7);

	/* Broadcast, write, fence, NOPs that skip dwords. */
	p = stream_begin(&s);
	sdma_broadcast(&p, to, a[IN_VRAM][1].va + 4096, from, 8192);
	sdma_nop(&p, 0);
	sdma_write(&p, to + 16384, 100, 0x1000);
	sdma_nop(&p, 5);
	sdma_fence(&p, to + 32768, 0xfe2ce);
	stream_run(&s, p);
	EXPECT(numbered(dst, 0, 2048, 7, 0));
	EXPECT(numbered(dst2, 1024, 3072, 7, -1024));
	for (uint32_t i = 0; i < 100; i++)
		ASSERT_EQ(dst[4096 + i], 0x1000 + i);
	EXPECT_EQ(dst[4196], 0);
	EXPECT_EQ(dst[8192], 0xfe2ce);

	/* A 5 x 3 dword rectangle from a pitch of 64 to a pitch of 100. */
	memset(dst, 0, 65536);
	p = stream_begin(&s);
	sdma_rectangle(&p, g.sdma_major >= 7, to, 10, 1, 100, from, 7, 2, 64, 5, 3);
	stream_run(&s, p);
	for (uint32_t y = 0; y < 6; y++)
		for (uint32_t x = 0; x < 100; x++) {
			bool inside = x >= 10 && x < 15 && y >= 1 && y < 4;

			ASSERT_EQ(dst[y * 100 + x],
				  inside ? src[(y - 1 + 2) * 64 + x - 10 + 7] : 0);
		}

	/* Atomics of both sizes; a compare-and-swap that swaps and one that does not. */
	memset(dst, 0, 4096);
	dst[0] = 5;
	dst[2] = 0xffffffff;
	dst[4] = 77;
	dst[6] = 77;
	dst[8] = 0xff;
	p = stream_begin(&s);
	sdma_atomic(&p, SDMA_ADD, to, 10, 0);
	sdma_atomic(&p, SDMA_ADD | SDMA_64, to + 8, 1, 0);
	sdma_atomic(&p, SDMA_CMPSWAP, to + 16, 1, 77);
	sdma_atomic(&p, SDMA_CMPSWAP, to + 24, 1, 78);
	sdma_atomic(&p, SDMA_AND, to + 32, 0xf0, 0);
	sdma_atomic(&p, SDMA_SWAP | SDMA_64, to + 40, 0x123456789abcdefull, 0);
	stream_run(&s, p);
	EXPECT_EQ(dst[0], 15);
	EXPECT_EQ(dst[2], 0);
	EXPECT_EQ(dst[3], 1);
	EXPECT_EQ(dst[4], 1);
	EXPECT_EQ(dst[6], 77);
	EXPECT_EQ(dst[8], 0xf0);
	EXPECT_EQ(*(uint64_t *)(dst + 10), 0x123456789abcdefull);

	/*
	 * COND_EXE runs or skips the packets behind it; POLL_REGMEM with a true condition does not
	 * wait.
	 */
	memset(dst, 0, 4096);
	dst[100] = 1;
	p = stream_begin(&s);
	sdma_cond_exe(&p, to + 400, 1, 4);
	sdma_fence(&p, to, 0xaa);
	sdma_cond_exe(&p, to + 404, 1, 4);
	sdma_fence(&p, to + 4, 0xbb);
	sdma_poll(&p, to + 400, SDMA_EQUAL, 1, 0xffffffff);
	sdma_poll(&p, to + 404, SDMA_LESS, 1, 0xffffffff);
	sdma_poll(&p, to + 400, SDMA_GREATER_EQUAL, 1, 0xf);
	sdma_fence(&p, to + 8, 0xcc);
	stream_run(&s, p);
	EXPECT_EQ(dst[0], 0xaa);
	EXPECT_EQ(dst[1], 0);
	EXPECT_EQ(dst[2], 0xcc);

	/* Two TIMESTAMP packets. */
	p = stream_begin(&s);
	sdma_clock(&p, to + 4096);
	sdma_copy(&p, to + 65536, from, MIB);
	sdma_clock(&p, to + 4104);
	stream_run(&s, p);
	clock = (uint64_t *)(dst + 1024);
	EXPECT(clock[0] > 0 && clock[1] >= clock[0], "%llu, then %llu",
	       (unsigned long long)clock[0], (unsigned long long)clock[1]);
}

/* The job polls memory that the CPU writes. */
TEST(poll_memory_written_by_cpu)
{
	struct area a[KINDS][2];
	volatile uint32_t *words;
	struct stream s;
	struct gpu g;
	uint32_t *p;

	areas(&g, &s, SIZE, a);
	words = a[IN_GTT][0].cpu;
	words[0] = words[1] = 0;
	p = stream_begin(&s);
	sdma_poll(&p, a[IN_GTT][0].va, SDMA_EQUAL, 1, 0xffffffff);
	sdma_fence(&p, a[IN_GTT][0].va + 4, 2);
	ASSERT_OK(stream_submit(&s, p));
	EXPECT_RET(stream_wait(&s, s.seq, SECOND / 10), -ETIMEDOUT);
	EXPECT_EQ(words[1], 0);
	words[0] = 1;
	EXPECT_OK(stream_wait(&s, s.seq, WAIT_NS));
	EXPECT_EQ(words[1], 2);
}

/* One job with many IBs, up to the limit of the driver. */
TEST(many_ibs_per_job)
{
	struct amdgpu_cs_ib_info ib[49];
	struct amdgpu_cs_request request = { .ip_type = AMDGPU_HW_IP_DMA, .ibs = ib };
	const struct mem *mems[1];
	struct stream s;
	struct mem m;
	struct gpu g;

	drm_open(&g);
	mem_create(&g, 65536, GTT, &m);
	stream_create(&g, &s, 0, NORMAL, 49, 64);
	mems[0] = &m;
	stream_uses(&s, mems, 1);
	memset(ib, 0, sizeof(ib));
	for (uint32_t i = 0; i < 49; i++) {
		uint32_t *start = (uint32_t *)s.ib.cpu + i * s.slot_dw, *p = start;

		/* Each IB continues from the value that the previous one left. */
		sdma_atomic(&p, SDMA_CMPSWAP, m.va, i + 1, i);
		ib[i].ib_mc_address = s.ib.va + i * s.slot_dw * 4;
		ib[i].size = (uint32_t)(p - start);
	}
	request.number_of_ibs = 49;
	request.resources = s.list;
	ASSERT_OK(amdgpu_cs_submit(s.ctx, 0, &request, 1));
	s.seq = request.seq_no;
	ASSERT_OK(stream_wait(&s, s.seq, WAIT_NS));
	EXPECT_EQ(*(uint32_t *)m.cpu, 49);
}

struct seen {
	uint64_t context, number;
	unsigned int queued, run, done;
};

/* Each job has one event each for queued, running and done, in this order. */
TEST(one_trace_event_per_job)
{
	enum { JOBS = 100 };
	static struct seen jobs[JOBS];
	struct area a[KINDS][2];
	unsigned int found = 0, runs = 0;
	struct stream s;
	struct gpu g;
	char *text, *line;

	areas(&g, &s, SIZE, a);
	/* Trigger one-time work now: mappings and the like. */
	stream_copy(&s, a[IN_VRAM][0].va, a[IN_GTT][0].va, MIB);
	if (!trace_start())
		SKIP("no gpu_scheduler trace events");
	for (unsigned int i = 0; i < JOBS; i++)
		stream_copy(&s, a[i & 1][1].va, a[1 - (i & 1)][0].va, 4096 + i * 4);
	usleep(100000);
	text = trace_stop();

	for (line = text; *line; line = strchrnul(line, '\n'), line += !!*line) {
		char pid[32], *event = strstr(line, "drm_sched_job_queue: ");
		uint64_t context;

		snprintf(pid, sizeof(pid), "-%d ", getpid());
		if (!event || event > strchrnul(line, '\n') ||
		    !memmem(line, (size_t)(event - line), pid, strlen(pid)))
			continue;
		context = trace_number(event, "fence=");
		ASSERT(found < JOBS, "more jobs queued than submitted by this process");
		jobs[found].context = context;
		jobs[found].number = trace_number(strchr(strstr(event, "fence="), ':') - 1, ":");
		jobs[found++].queued = 1;
		EXPECT_EQ(context, jobs[0].context);
		EXPECT_EQ(jobs[found - 1].number, jobs[0].number + found - 1);
	}
	EXPECT_EQ(found, JOBS);
	for (line = text; *line; line = strchrnul(line, '\n'), line += !!*line) {
		char *end = strchrnul(line, '\n'), *run = strstr(line, "drm_sched_job_run: "),
		     *done = strstr(line, "drm_sched_job_done: ");
		char *event = run && run < end ? run : done && done < end ? done : NULL;
		struct seen *job;
		uint64_t number;

		if (!event || trace_number(event, "fence=") != jobs[0].context)
			continue;
		number = trace_number(strchr(strstr(event, "fence="), ':') - 1, ":") -
			 jobs[0].number;
		ASSERT(number < JOBS, "event of unknown job %lld", (long long)number);
		job = &jobs[number];
		if (event == run) {
			runs++;
			EXPECT(job->run++ == 0 && !job->done, "job %llu runs twice",
			       (unsigned long long)number);
		} else {
			EXPECT(job->done++ == 0 && job->run, "job %llu is done twice",
			       (unsigned long long)number);
		}
	}
	EXPECT_EQ(runs, JOBS);
	for (unsigned int i = 0; i < JOBS; i++)
		EXPECT(jobs[i].run == 1 && jobs[i].done == 1, "job %u: %u runs, done %u times", i,
		       jobs[i].run, jobs[i].done);
	free(text);
}
