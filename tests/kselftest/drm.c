// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Submits SDMA jobs through libdrm_amdgpu, see drm.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../workloads/kfd.h"
#include "drm.h"
#include "fixture.h"

#define TRACING "/sys/kernel/tracing"
#define INSTANCE TRACING "/instances/kselftest"

void drm_open(struct gpu *g)
{
	struct drm_amdgpu_info_hw_ip ip = { 0 };
	uint32_t major, minor;
	struct kfd_node node;
	char path[64];

	memset(g, 0, sizeof(*g));
	ASSERT_OK(kfd_topology_find_gpu(&node));
	snprintf(path, sizeof(path), "/dev/dri/renderD%u", node.drm_render_minor);
	g->fd = open(path, O_RDWR | O_CLOEXEC);
	ASSERT(g->fd >= 0, "%s: %s", path, strerror(errno));
	/* Open a new file even in a child of a process that has one. */
	ASSERT_OK(amdgpu_device_initialize2(g->fd, false, &major, &minor, &g->dev));
	ASSERT_OK(amdgpu_query_hw_ip_count(g->dev, AMDGPU_HW_IP_DMA, &g->engines));
	ASSERT(g->engines > 0);
	ASSERT_OK(amdgpu_query_hw_ip_info(g->dev, AMDGPU_HW_IP_DMA, 0, &ip));
	g->sdma_major = ip.hw_ip_version_major;
	g->partitions = !is_gfx12(&node);
	/* Each context has two SDMA rings, on any engines. */
	ASSERT(ip.available_rings & 1, "no SDMA ring");
}

void drm_close(struct gpu *g)
{
	EXPECT_OK(amdgpu_device_deinitialize(g->dev));
	close(g->fd);
}

int mem_try(struct gpu *g, uint64_t size, uint32_t domain, uint64_t flags, bool cpu, struct mem *m)
{
	struct amdgpu_bo_alloc_request request = {
		.alloc_size = size,
		.phys_alignment = 4096,
		.preferred_heap = domain,
		.flags = flags | (cpu ? AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED : 0),
	};
	int ret;

	memset(m, 0, sizeof(*m));
	m->size = size;
	ret = amdgpu_bo_alloc(g->dev, &request, &m->bo);
	if (ret)
		return ret;
	ret = amdgpu_va_range_alloc(g->dev, amdgpu_gpu_va_range_general, size, 4096, 0, &m->va,
				    &m->range, 0);
	if (ret)
		goto free_bo;
	ret = amdgpu_bo_va_op(m->bo, 0, size, m->va, 0, AMDGPU_VA_OP_MAP);
	if (ret)
		goto free_range;
	if (cpu)
		ret = amdgpu_bo_cpu_map(m->bo, &m->cpu);
	if (!ret)
		return 0;
	amdgpu_bo_va_op(m->bo, 0, size, m->va, 0, AMDGPU_VA_OP_UNMAP);
free_range:
	amdgpu_va_range_free(m->range);
free_bo:
	amdgpu_bo_free(m->bo);
	return ret;
}

void mem_create(struct gpu *g, uint64_t size, uint32_t domain, struct mem *m)
{
	ASSERT_OK(mem_try(g, size, domain, 0, true, m));
}

void mem_destroy(struct mem *m)
{
	if (m->cpu)
		EXPECT_OK(amdgpu_bo_cpu_unmap(m->bo));
	EXPECT_OK(amdgpu_bo_va_op(m->bo, 0, m->size, m->va, 0, AMDGPU_VA_OP_UNMAP));
	EXPECT_OK(amdgpu_va_range_free(m->range));
	EXPECT_OK(amdgpu_bo_free(m->bo));
}

void stream_create(struct gpu *g, struct stream *s, uint32_t ring, uint32_t priority,
		   uint32_t count, uint32_t dwords)
{
	memset(s, 0, sizeof(*s));
	s->gpu = g;
	s->ring = ring;
	s->slots = count;
	/* HW_IP_INFO requires IBs at multiples of 256 bytes. */
	s->slot_dw = (dwords + 63) & ~63u;
	ASSERT_OK(amdgpu_cs_ctx_create2(g->dev, priority, &s->ctx));
	mem_create(g, ((uint64_t)count * s->slot_dw * 4 + 4095) & ~4095ull, GTT, &s->ib);
	stream_uses(s, NULL, 0);
}

void stream_destroy(struct stream *s)
{
	EXPECT_OK(amdgpu_bo_list_destroy(s->list));
	mem_destroy(&s->ib);
	EXPECT_OK(amdgpu_cs_ctx_free(s->ctx));
}

void stream_uses(struct stream *s, const struct mem *const *mems, uint32_t count)
{
	amdgpu_bo_handle *handles = calloc(count + 1, sizeof(*handles));

	ASSERT(handles != NULL);
	handles[0] = s->ib.bo;
	for (uint32_t i = 0; i < count; i++)
		handles[i + 1] = mems[i]->bo;
	if (s->list)
		ASSERT_OK(amdgpu_bo_list_destroy(s->list));
	ASSERT_OK(amdgpu_bo_list_create(s->gpu->dev, count + 1, handles, NULL, &s->list));
	free(handles);
}

uint32_t *stream_begin(struct stream *s)
{
	return (uint32_t *)s->ib.cpu + s->slot * s->slot_dw;
}

int stream_submit_after(struct stream *s, const uint32_t *end, struct amdgpu_cs_fence *after,
			uint32_t count)
{
	const uint32_t *start = stream_begin(s);
	struct amdgpu_cs_ib_info ib = {
		.ib_mc_address = s->ib.va + (uint64_t)s->slot * s->slot_dw * 4,
		.size = (uint32_t)(end - start),
	};
	struct amdgpu_cs_request request = {
		.ip_type = AMDGPU_HW_IP_DMA,
		.ring = s->ring,
		.resources = s->list,
		.number_of_ibs = 1,
		.ibs = &ib,
		.number_of_dependencies = count,
		.dependencies = after,
	};
	int ret;

	ASSERT(end > start && end <= start + s->slot_dw);
	ret = amdgpu_cs_submit(s->ctx, 0, &request, 1);
	if (ret)
		return ret;
	s->seq = request.seq_no;
	s->slot = (s->slot + 1) % s->slots;
	return 0;
}

int stream_submit(struct stream *s, const uint32_t *end)
{
	return stream_submit_after(s, end, NULL, 0);
}

struct amdgpu_cs_fence stream_fence(const struct stream *s, uint64_t seq)
{
	return (struct amdgpu_cs_fence){
		.context = s->ctx, .ip_type = AMDGPU_HW_IP_DMA, .ring = s->ring, .fence = seq
	};
}

int stream_wait(struct stream *s, uint64_t seq, uint64_t ns)
{
	struct amdgpu_cs_fence fence = stream_fence(s, seq);
	uint32_t expired = 0;
	int ret = amdgpu_cs_query_fence_status(&fence, ns, 0, &expired);

	return ret ? ret : expired ? 0 : -ETIMEDOUT;
}

void stream_run(struct stream *s, const uint32_t *end)
{
	ASSERT_OK(stream_submit(s, end));
	ASSERT_OK(stream_wait(s, s->seq, WAIT_NS));
}

void stream_fill(struct stream *s, uint64_t to, uint32_t value, uint64_t bytes)
{
	uint32_t *p = stream_begin(s);

	while (bytes) {
		uint32_t part = bytes > SDMA_MAX_BYTES ? SDMA_MAX_BYTES : (uint32_t)bytes;

		sdma_fill(&p, to, value, part);
		to += part;
		bytes -= part;
	}
	stream_run(s, p);
}

void stream_copy(struct stream *s, uint64_t to, uint64_t from, uint64_t bytes)
{
	uint32_t *p = stream_begin(s);

	while (bytes) {
		uint32_t part = bytes > SDMA_MAX_BYTES ? SDMA_MAX_BYTES : (uint32_t)bytes;

		sdma_copy(&p, to, from, part);
		to += part;
		from += part;
		bytes -= part;
	}
	stream_run(s, p);
}

bool drm_works(struct gpu *g)
{
	static uint32_t value = 0x1357;
	const struct mem *mems[2];
	struct mem a, b;
	struct stream s;
	uint32_t *p, *words;
	bool right = true;

	value = value * 69069 + 1;
	stream_create(g, &s, 0, NORMAL, 1, 64);
	mem_create(g, 65536, VRAM, &a);
	mem_create(g, 65536, GTT, &b);
	mems[0] = &a;
	mems[1] = &b;
	stream_uses(&s, mems, 2);
	p = stream_begin(&s);
	sdma_fill(&p, a.va, value, 65536);
	sdma_copy(&p, b.va, a.va, 65536);
	if (!EXPECT_OK(stream_submit(&s, p)) || !EXPECT_OK(stream_wait(&s, s.seq, WAIT_NS)))
		return false;
	words = b.cpu;
	for (uint32_t i = 0; i < 65536 / 4 && right; i++)
		right = EXPECT_EQ(words[i], value);
	mem_destroy(&a);
	mem_destroy(&b);
	stream_destroy(&s);
	return right;
}

uint64_t bench_word(struct bench *b, uint32_t word)
{
	return b->m.va + word * 4;
}

void open_bench(struct bench *b)
{
	const struct mem *mems[1] = { &b->m };

	memset(b, 0, sizeof(*b));
	drm_open(&b->g);
	mem_create(&b->g, 65536, GTT, &b->m);
	b->words = b->m.cpu;
	for (int i = 0; i < 4; i++) {
		stream_create(&b->g, &b->s[i], 0, NORMAL, 8, 64);
		stream_uses(&b->s[i], mems, 1);
	}
}

uint32_t *gated(struct bench *b, struct stream *s, uint32_t gate, uint32_t done, uint32_t value)
{
	uint32_t *p = stream_begin(s);

	sdma_poll(&p, bench_word(b, gate), SDMA_EQUAL, 1, 0xffffffff);
	sdma_fence(&p, bench_word(b, done), value);
	return p;
}

uint32_t *step(struct bench *b, struct stream *s, uint32_t where, uint32_t before, uint32_t value)
{
	uint32_t *p = stream_begin(s);

	sdma_atomic(&p, SDMA_CMPSWAP, bench_word(b, where), value, before);
	return p;
}

static uint64_t usage(struct gpu *g, uint32_t query)
{
	uint64_t bytes = 0;

	ASSERT_OK(amdgpu_query_info(g->dev, query, sizeof(bytes), &bytes));
	return bytes;
}

uint64_t drm_vram_usage(struct gpu *g)
{
	return usage(g, AMDGPU_INFO_VRAM_USAGE);
}

uint64_t drm_gtt_usage(struct gpu *g)
{
	return usage(g, AMDGPU_INFO_GTT_USAGE);
}

void drm_expect_usage(struct gpu *g, uint64_t vram, uint64_t gtt)
{
	for (int i = 0; i < 50 && (drm_vram_usage(g) > vram || drm_gtt_usage(g) > gtt); i++)
		usleep(100000);
	EXPECT(drm_vram_usage(g) <= vram, "%llu bytes of VRAM, %llu before",
	       (unsigned long long)drm_vram_usage(g), (unsigned long long)vram);
	EXPECT(drm_gtt_usage(g) <= gtt, "%llu bytes of GTT, %llu before",
	       (unsigned long long)drm_gtt_usage(g), (unsigned long long)gtt);
}

bool trace_start(void)
{
	if (access(TRACING "/events/gpu_scheduler/drm_sched_job_run", F_OK))
		return false;
	rmdir(INSTANCE);
	ASSERT(mkdir(INSTANCE, 0700) == 0 || errno == EEXIST, "%s", strerror(errno));
	/* Large enough for all events of a test on each CPU. */
	ASSERT_OK(write_file(INSTANCE "/buffer_size_kb", "8192"));
	ASSERT_OK(write_file(INSTANCE "/trace", ""));
	ASSERT_OK(write_file(INSTANCE "/events/gpu_scheduler/enable", "1"));
	ASSERT_OK(write_file(INSTANCE "/tracing_on", "1"));
	return true;
}

char *trace_stop(void)
{
	size_t used = 0, size = 1 << 20;
	char *text = malloc(size);
	ssize_t n;
	int fd;

	ASSERT_OK(write_file(INSTANCE "/tracing_on", "0"));
	fd = open(INSTANCE "/trace", O_RDONLY | O_CLOEXEC);
	ASSERT(fd >= 0 && text != NULL);
	while ((n = read(fd, text + used, size - used - 1)) > 0) {
		used += (size_t)n;
		if (size - used < 65536)
			text = realloc(text, size *= 2);
		ASSERT(text != NULL);
	}
	ASSERT(n == 0);
	text[used] = 0;
	close(fd);
	rmdir(INSTANCE);
	return text;
}

uint64_t trace_number(const char *line, const char *key)
{
	const char *end = strchrnul(line, '\n'), *at = strstr(line, key);

	return at && at < end ? strtoull(at + strlen(key), NULL, 0) : ~0ull;
}
