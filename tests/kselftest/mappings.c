// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests mmap() of /dev/kfd: doorbells, the MMIO page, and errors. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

static uint64_t offset_of(uint64_t type, uint32_t gpu_id)
{
	return type << 62 | (uint64_t)(gpu_id & 0xffff) << 46;
}

/* Maps and unmaps; returns 0 or a negative errno. */
static int try_map(int fd, uint64_t offset, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, size);
	return 0;
}

TEST(doorbells_are_mapped_as_a_whole)
{
	struct fixture f;
	uint64_t offset;

	fixture_launch(&f);
	offset = offset_of(3, f.k.node.gpu_id);
	EXPECT_OK(try_map(f.k.fd, offset, 8192));
	EXPECT_RET(try_map(f.k.fd, offset, 4096), -EINVAL);
	EXPECT_RET(try_map(f.k.fd, offset, 16384), -EINVAL);
	EXPECT_RET(try_map(f.k.fd, offset_of(3, f.k.node.gpu_id ^ 1), 8192), -ENODEV);
	EXPECT_RET(try_map(f.k.fd, offset_of(3, 0), 8192), -ENODEV);
	EXPECT(fixture_works(&f));
}

TEST(retired_mmap_types_are_einval)
{
	struct fixture f;

	fixture_launch(&f);
	EXPECT_RET(try_map(f.k.fd, offset_of(1, f.k.node.gpu_id), 4096), -EINVAL);
	EXPECT_RET(try_map(f.k.fd, offset_of(2, f.k.node.gpu_id), 4096), -EINVAL);
	EXPECT_RET(try_map(f.k.fd, offset_of(2, 0), 4096), -EINVAL);
}

/* Maps privately, and reads; returns 0 or a negative errno. */
static int touch_private(struct fixture *f, int protection, uint64_t offset, size_t size)
{
	volatile uint32_t *p = mmap(NULL, size, protection, MAP_PRIVATE, f->k.fd, (off_t)offset);

	if (p == MAP_FAILED)
		return -errno;
	(void)*p;
	munmap((void *)p, size);
	return 0;
}

/* Stores to it would be to copies, now or after mprotect(). The C driver accepts it. */
TEST(private_mapping)
{
	int wanted = ktap_is_rkfd() ? -EINVAL : 0;
	struct fixture f;

	fixture_launch(&f);
	for (int i = 0; i < 2; i++) {
		uint64_t offset = offset_of(i ? 0 : 3, f.k.node.gpu_id);
		size_t size = i ? 4096 : 8192;

		EXPECT_RET(touch_private(&f, PROT_READ, offset, size), wanted);
		EXPECT_RET(touch_private(&f, PROT_READ | PROT_WRITE, offset, size), wanted);
	}
	EXPECT(fixture_works(&f));
}

TEST(mmio_mapping_is_one_page)
{
	struct fixture f;

	fixture_launch(&f);
	EXPECT_OK(try_map(f.k.fd, offset_of(0, f.k.node.gpu_id), 4096));
	EXPECT_RET(try_map(f.k.fd, offset_of(0, f.k.node.gpu_id), 8192), -EINVAL);
	EXPECT_RET(try_map(f.k.fd, offset_of(0, 0), 4096), -ENODEV);
	EXPECT_RET(try_map(f.k.fd, 0, 4096), -ENODEV);
}

/* Device I/O: no core dump, no copy on fork, no mremap() growth. */
TEST(doorbell_vma_flags)
{
	char line[512], wanted[32];
	bool here = false, found = false;
	struct fixture f;
	FILE *maps;

	fixture_launch(&f);
	snprintf(wanted, sizeof(wanted), "%lx-", (unsigned long)kfd_va((void *)f.k.doorbells));
	maps = fopen("/proc/self/smaps", "re");
	ASSERT(maps != NULL);
	while (fgets(line, sizeof(line), maps)) {
		if (!strncmp(line, wanted, strlen(wanted)))
			here = true;
		if (!here || strncmp(line, "VmFlags:", 8))
			continue;
		found = true;
		EXPECT(strstr(line, " io") != NULL, "%s", line);
		EXPECT(strstr(line, " dc") != NULL, "%s", line);
		EXPECT(strstr(line, " de") != NULL, "%s", line);
		EXPECT(strstr(line, " dd") != NULL, "%s", line);
		EXPECT(strstr(line, " pf") != NULL, "%s", line);
		break;
	}
	EXPECT(found);
	fclose(maps);
}

TEST(mapping_cannot_grow)
{
	struct fixture f;
	void *p;

	fixture_launch(&f);
	p = mremap((void *)f.k.doorbells, KFD_DOORBELL_SLICE, KFD_DOORBELL_SLICE * 2,
		   MREMAP_MAYMOVE);
	EXPECT(p == MAP_FAILED && errno == EFAULT, "%s",
	       p == MAP_FAILED ? strerrorname_np(errno) : "grown");
	EXPECT(fixture_works(&f));
}

TEST(second_doorbell_mapping)
{
	struct fixture f;
	void *p;

	fixture_launch(&f);
	p = mmap(NULL, KFD_DOORBELL_SLICE, PROT_READ | PROT_WRITE, MAP_SHARED, f.k.fd,
		 (off_t)(f.q.doorbell_offset & ~(KFD_DOORBELL_SLICE - 1)));
	ASSERT(p != MAP_FAILED);
	munmap((void *)f.k.doorbells, KFD_DOORBELL_SLICE);
	f.k.doorbells = p;
	f.q.doorbell =
		(volatile uint64_t *)((char *)p + (f.q.doorbell_offset & (KFD_DOORBELL_SLICE - 1)));
	EXPECT(fixture_works(&f));
	/* Files may be closed; mappings and queues stay. */
	close(f.k.drm);
	EXPECT(fixture_works(&f));
}

/* The mapping of the parent is not in a child: it faults in any case there. */
TEST(doorbell_after_munmap_faults)
{
	pid_t child = fork_child();
	struct fixture f;
	int status;

	if (!child) {
		fixture_launch(&f);
		ASSERT(fixture_works(&f));
		ASSERT(munmap((void *)f.k.doorbells, KFD_DOORBELL_SLICE) == 0);
		(void)*f.q.doorbell;
		_exit(0);
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %#x", status);
}
