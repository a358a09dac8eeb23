// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests /proc/PID/fdinfo of files of the render node: memory by region, and the time of jobs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xf86drm.h>

#include "drm.h"
#include "userptr.h"

#define BO (16 * MIB)
#define MAX_BOS 128

/* Returns the bytes, or the number, behind `key`; ~0 if there is no such line. */
static uint64_t fdinfo(int fd, const char *key)
{
	char path[64], line[256], unit[8] = "";
	unsigned long long number;
	uint64_t found = ~0ull;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	ASSERT(f != NULL, "%s", path);
	while (fgets(line, sizeof(line), f)) {
		size_t length = strlen(key);

		if (strncmp(line, key, length) || line[length] != ':' ||
		    sscanf(line + length + 1, " %llu %7s", &number, unit) < 1)
			continue;
		found = number << (!strcmp(unit, "KiB") ? 10 : !strcmp(unit, "MiB") ? 20 : 0);
	}
	fclose(f);
	return found;
}

/* Expects that the bytes behind `key` become `bytes`: memory is freed after its last job. */
static void expect_bytes(int fd, const char *key, uint64_t bytes)
{
	for (int i = 0; i < 50 && fdinfo(fd, key) != bytes; i++)
		usleep(100000);
	EXPECT(fdinfo(fd, key) == bytes, "%s: %llu, not %llu", key,
	       (unsigned long long)fdinfo(fd, key), (unsigned long long)bytes);
}

TEST(memory_by_region)
{
	uint64_t empty, gtt, vram;
	struct mem m, n;
	struct gpu g;

	drm_open(&g);
	/* The C driver includes BOs of its own (amdgpu_seq64.c), and page tables in VRAM. */
	mem_create(&g, MIB, VRAM, &m);
	empty = fdinfo(g.fd, "drm-total-gtt");
	mem_create(&g, MIB, GTT, &n);
	gtt = fdinfo(g.fd, "drm-total-gtt");
	vram = fdinfo(g.fd, "drm-total-vram");
	EXPECT(fdinfo(g.fd, "pasid") > 0);
	EXPECT(vram >= MIB && vram < 64 * MIB, "%llu", (unsigned long long)vram);
	EXPECT(fdinfo(g.fd, "drm-resident-vram") >= MIB);
	EXPECT_EQ(fdinfo(g.fd, "drm-memory-vram"), fdinfo(g.fd, "drm-resident-vram"));
	EXPECT_EQ(fdinfo(g.fd, "amd-requested-vram"), vram);
	EXPECT_EQ(fdinfo(g.fd, "amd-evicted-vram"), 0);
	EXPECT_EQ(gtt, empty + MIB);
	EXPECT_EQ(fdinfo(g.fd, "drm-resident-gtt"), gtt);
	EXPECT_EQ(fdinfo(g.fd, "drm-memory-gtt"), gtt);
	EXPECT_EQ(fdinfo(g.fd, "amd-requested-gtt"), gtt);
	EXPECT_EQ(fdinfo(g.fd, "drm-total-cpu"), 0);
	mem_destroy(&n);
	expect_bytes(g.fd, "drm-total-gtt", empty);
	mem_destroy(&m);
	EXPECT(fdinfo(g.fd, "drm-total-vram") <= vram - MIB);
	drm_close(&g);
}

TEST(shared_memory)
{
	uint64_t total, total_of_other;
	uint32_t buf, handle;
	struct mem m;
	struct gpu g;
	int other;

	drm_open(&g);
	other = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	ASSERT(other >= 0);
	mem_create(&g, MIB, GTT, &m);
	total = fdinfo(g.fd, "drm-total-gtt");
	total_of_other = fdinfo(other, "drm-total-gtt");
	EXPECT_EQ(fdinfo(g.fd, "drm-shared-gtt"), 0);
	ASSERT_OK(amdgpu_bo_export(m.bo, amdgpu_bo_handle_type_dma_buf_fd, &buf));
	ASSERT_OK(drmPrimeFDToHandle(other, (int)buf, &handle));
	EXPECT_EQ(fdinfo(g.fd, "drm-shared-gtt"), MIB);
	EXPECT_EQ(fdinfo(g.fd, "drm-total-gtt"), total);
	EXPECT_EQ(fdinfo(other, "drm-shared-gtt"), MIB);
	EXPECT_EQ(fdinfo(other, "drm-total-gtt"), total_of_other + MIB);
	close(other);
	close((int)buf);
	mem_destroy(&m);
	drm_close(&g);
}

TEST(memory_of_kfd)
{
	struct kfd_bo *gtt, *vram;
	uint64_t in_gtt, in_vram;
	struct kfd k;

	fixture_open(&k);
	in_gtt = fdinfo(k.drm, "drm-total-gtt");
	ASSERT_OK(kfd_bo_create(&k, MIB, KFD_FLAGS_GTT, &gtt));
	EXPECT_EQ(fdinfo(k.drm, "drm-total-gtt"), in_gtt + MIB);
	in_vram = fdinfo(k.drm, "drm-total-vram");
	ASSERT_OK(kfd_bo_create(&k, 4 * MIB, KFD_FLAGS_VRAM, &vram));
	EXPECT(fdinfo(k.drm, "drm-total-vram") >= in_vram + 4 * MIB);
	ASSERT_OK(kfd_bo_free(&k, vram));
	ASSERT_OK(kfd_bo_free(&k, gtt));
	expect_bytes(k.drm, "drm-total-gtt", in_gtt);
}

/* User memory prefers the CPU, and is resident in a region that has no lines. */
TEST(user_memory_of_kfd)
{
	uint64_t in_gtt, in_cpu, resident;
	struct pages user;
	struct kfd k;

	fixture_open(&k);
	in_gtt = fdinfo(k.drm, "drm-total-gtt");
	in_cpu = fdinfo(k.drm, "drm-total-cpu");
	resident = fdinfo(k.drm, "drm-resident-gtt");
	register_new(&k, MIB, &user);
	EXPECT_EQ(fdinfo(k.drm, "drm-total-cpu"), in_cpu + MIB);
	EXPECT_EQ(fdinfo(k.drm, "drm-total-gtt"), in_gtt);
	EXPECT_EQ(fdinfo(k.drm, "drm-resident-gtt"), resident);
	EXPECT_OK(unregister(&k, &user));
	expect_bytes(k.drm, "drm-total-cpu", in_cpu);
}

TEST_TIMEOUT(evicted_memory, 120)
{
	static struct mem bos[MAX_BOS];
	uint64_t size, gtt, evicted = 0;
	unsigned int count = 0;
	struct kfd k;
	struct gpu g;

	fixture_open(&k);
	size = small_vram_bytes(&k);
	drm_open(&g);
	gtt = fdinfo(g.fd, "drm-total-gtt");
	while (!evicted && count * BO < 2 * size) {
		mem_create(&g, BO, VRAM, &bos[count++]);
		memset(bos[count - 1].cpu, (int)count, BO);
		evicted = fdinfo(g.fd, "amd-evicted-vram");
	}
	EXPECT(evicted >= BO && evicted % BO == 0, "%llu", (unsigned long long)evicted);
	EXPECT(fdinfo(g.fd, "amd-requested-vram") >= count * BO);
	EXPECT(fdinfo(g.fd, "drm-resident-gtt") >= evicted);
	EXPECT_EQ(fdinfo(g.fd, "drm-total-gtt"), gtt);
	while (count)
		mem_destroy(&bos[--count]);
	drm_close(&g);
}

TEST(time_of_jobs)
{
	uint64_t ns, more;
	struct stream s;
	struct gpu g;
	struct mem m;

	drm_open(&g);
	mem_create(&g, BO, VRAM, &m);
	EXPECT_EQ(fdinfo(g.fd, "drm-engine-dma"), ~0ull);
	stream_create(&g, &s, 0, NORMAL, 4, 256);
	stream_uses(&s, (const struct mem *const[]){ &m }, 1);
	stream_fill(&s, m.va, 1, BO);
	ns = fdinfo(g.fd, "drm-engine-dma");
	EXPECT(ns > 0 && ns < 60 * SECOND, "%llu ns", (unsigned long long)ns);
	/* More jobs than the context keeps fences of. */
	for (int i = 0; i < 40; i++)
		stream_fill(&s, m.va, 2, 4096);
	more = fdinfo(g.fd, "drm-engine-dma");
	EXPECT(more > ns, "%llu ns", (unsigned long long)more);
	EXPECT_EQ(fdinfo(g.fd, "drm-engine-dma"), more);
	/* The time of a context stays. */
	stream_destroy(&s);
	EXPECT_EQ(fdinfo(g.fd, "drm-engine-dma"), more);
	mem_destroy(&m);
	drm_close(&g);
}
