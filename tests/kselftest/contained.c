// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests run by tests/rocm/containers.py in a container that has one of the cards. The environment
 * describes the host: node, gpu_id and minor of the other card, the id of a process with /dev/kfd,
 * and a folder that host and containers share.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "debugger.h"
#include "listen.h"
#include "svm.h"

#define DRM_MAJOR 226
#define MMAP_TYPE_MMIO 0ull
#define MMAP_TYPE_DOORBELL 3ull
/* An address that nothing is mapped at, in any container. */
#define COMMON (1ull << 40)
#define COMMON_SIZE (1ul << 20)
/* VRAM of a process that is killed. */
#define HELD (512ul << 20)

static uint32_t number(const char *name)
{
	const char *text = getenv(name);

	ASSERT(text != NULL, "no $%s", name);
	return (uint32_t)strtoul(text, NULL, 0);
}

/* Host and container notify each other by files. */
static void tell(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", getenv("SHARED"), name);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	ASSERT(access(path, F_OK) == 0, "%s", path);
}

static void await(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", getenv("SHARED"), name);
	while (access(path, F_OK))
		usleep(20000);
}

/* Opens a file and reads a byte; returns 0 or a negative errno. */
static int read_byte(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;
	char byte;

	if (fd < 0)
		return -errno;
	ret = read(fd, &byte, 1) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

/* The topology has one card for this process, which works. */
TEST(own_card_works)
{
	struct kfd_ioctl_get_process_apertures_new_args args = { 0 };
	struct fixture f;

	fixture_launch(&f);
	EXPECT_EQ(f.k.node.gpu_id, number("OWN_GPU"));
	EXPECT(fixture_works(&f));
	ASSERT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args));
	EXPECT_EQ(args.num_of_nodes, 1);
}

TEST(topology_of_the_other_is_unreadable)
{
	static const char *const files[] = { "gpu_id", "name", "properties", "mem_banks/0/properties",
					     "caches/0/properties", "io_links/0/properties" };
	uint32_t node = number("OTHER_NODE");
	char path[256];

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		/* The C driver does not record the GPU of a cache (kfd_cache_properties.gpu). */
		bool hidden = ktap_is_rkfd() || strncmp(files[i], "caches", 6);

		snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%u/%s", node, files[i]);
		EXPECT_RET(read_byte(path), hidden ? -EPERM : 0);
	}
}

/* The container has no device file of it; one that is created cannot be opened. */
TEST(devices_of_the_other_cannot_be_opened)
{
	uint32_t minor = number("OTHER_MINOR");
	char path[64];

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", minor);
	EXPECT_RET(kfd_open_file(path), -ENOENT);
	ASSERT(mknod("/dev/node", S_IFCHR | 0600, makedev(DRM_MAJOR, minor)) == 0, "%s",
	       strerror(errno));
	EXPECT_RET(kfd_open_file("/dev/node"), -EPERM);
	unlink("/dev/node");
}

static int try_map(int fd, uint64_t type, uint32_t gpu_id, size_t size)
{
	off_t offset = (off_t)(type << 62 | (uint64_t)(gpu_id & 0xffff) << 46);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, size);
	return 0;
}

/* Allocates VRAM of a card at COMMON. Returns 0 or a negative errno. */
static int alloc(struct kfd *k, uint32_t gpu_id, struct kfd_bo *bo)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = { .va_addr = COMMON,
							   .size = COMMON_SIZE,
							   .gpu_id = gpu_id,
							   .flags = KFD_FLAGS_VRAM };
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);

	*bo = (struct kfd_bo){ .handle = args.handle,
			       .mmap_offset = args.mmap_offset,
			       .va = (void *)COMMON,
			       .size = COMMON_SIZE,
			       .flags = KFD_FLAGS_VRAM };
	return ret;
}

static int map(struct kfd *k, uint32_t gpu_id, const struct kfd_bo *bo)
{
	struct kfd_ioctl_map_memory_to_gpu_args args = { .handle = bo->handle,
							 .device_ids_array_ptr = kfd_va(&gpu_id),
							 .n_devices = 1 };

	return kfd_ioctl(k->fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args);
}

/* Calls that name its gpu_id fail as for a number that no card has. */
TEST(ioctls_do_not_know_the_other)
{
	uint32_t other = number("OTHER_GPU");
	struct kfd_ioctl_set_memory_policy_args policy = { .gpu_id = other };
	struct kfd_ioctl_get_clock_counters_args clock = { .gpu_id = other };
	struct kfd_ioctl_get_tile_config_args tile = { .gpu_id = other };
	struct kfd_ioctl_set_trap_handler_args trap = { .gpu_id = other };
	struct kfd_ioctl_set_scratch_backing_va_args scratch = { .gpu_id = other };
	struct kfd_ioctl_import_dmabuf_args import = { .gpu_id = other };
	struct kfd_ioctl_get_available_memory_args available = { .gpu_id = other };
	struct kfd_ioctl_smi_events_args smi = { .gpuid = other };
	struct kfd_ioctl_acquire_vm_args acquire = { .gpu_id = other };
	struct kfd_ioctl_create_queue_args queue = { .gpu_id = other,
						     .queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
						     .ring_size = 4096,
						     .queue_percentage = 100 };
	struct kfd_bo bo;
	struct fixture f;

	fixture_launch(&f);
	acquire.drm_fd = (uint32_t)f.k.drm;
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_ACQUIRE_VM, &acquire), -EINVAL);
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_CREATE_QUEUE, &queue), -EINVAL);
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_SET_MEMORY_POLICY, &policy), -EINVAL);
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_GET_TILE_CONFIG, &tile), -EINVAL);
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_SET_TRAP_HANDLER, &trap), -EINVAL);
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &scratch), -EINVAL);
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_IMPORT_DMABUF, &import), -EINVAL);
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_AVAILABLE_MEMORY, &available), -EINVAL);
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_SMI_EVENTS, &smi), -EINVAL);
	EXPECT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &clock));
	EXPECT_EQ(clock.gpu_clock_counter, 0);
	EXPECT_RET(alloc(&f.k, other, &bo), -EINVAL);
	EXPECT_OK(alloc(&f.k, f.k.node.gpu_id, &bo));
	EXPECT_RET(map(&f.k, other, f.data), -EINVAL);
	EXPECT_RET(try_map(f.k.fd, MMAP_TYPE_DOORBELL, other, KFD_DOORBELL_SLICE), -ENODEV);
	EXPECT_RET(try_map(f.k.fd, MMAP_TYPE_MMIO, other, KFD_PAGE), -ENODEV);
	EXPECT_OK(try_map(f.k.fd, MMAP_TYPE_MMIO, f.k.node.gpu_id, KFD_PAGE));
	if (f.k.node.capability & SVM_CAPABLE) {
		char *p = anonymous(KFD_PAGE);

		EXPECT_RET(svm_set(&f.k, p, KFD_PAGE, { KFD_IOCTL_SVM_ATTR_ACCESS, other }), -EINVAL);
		EXPECT_RET(svm_set(&f.k, p, KFD_PAGE, { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, other }),
			   -EINVAL);
		EXPECT_OK(svm_access(&f.k, p, KFD_PAGE));
	}
	EXPECT(fixture_works(&f));
}

/* Ids of processes are those of the container, and those outside are unknown. */
TEST(processes_outside_are_unknown)
{
	pid_t outside = (pid_t)number("OUTSIDE_PID");
	struct session s;
	struct kfd k;

	fixture_open(&k);
	EXPECT(kill(outside, 0) < 0 && errno == ESRCH);
	session_of(&s, &k, outside);
	EXPECT_RET(session_enable(&s, ALL_EVENTS), -ESRCH);
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -ESRCH);
	session_of(&s, &k, getpid());
	EXPECT_OK(session_enable(&s, ALL_EVENTS));
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
}

/* Waits for a line, and expects that all have the id of this process. */
static void expect_own_eviction(struct kfd *k, int fd)
{
	char *memory = anonymous(KFD_PAGE);
	const char *text;
	struct pages p;

	register_at(k, memory, kfd_va(memory), KFD_PAGE, &p);
	ASSERT(madvise(memory, KFD_PAGE, MADV_DONTNEED) == 0);
	listen_for_line(fd, " 0\n", &text);
	for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
		unsigned long long ns;
		unsigned int event;
		int pid;

		ASSERT(sscanf(line, "%x %llu -%d ", &event, &ns, &pid) == 3, "%s", line);
		EXPECT(pid == getpid(), "%.80s", line);
	}
}

/* While a process outside has some, on the same card if there is one card. */
TEST_TIMEOUT(events_of_processes_outside_are_not_seen, 240)
{
	const char *text;
	struct kfd k;
	int fd;

	fixture_open(&k);
	fd = listen_to(&k, ~0ull);
	tell("listens");
	await("events");
	text = listen_lines(fd, 0);
	EXPECT(!*text, "%s", text);
	expect_own_eviction(&k, fd);
}

/* Holds VRAM and runs waves until it is killed. */
TEST_TIMEOUT(holds_vram, 600)
{
	struct kfd_bo *bo;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, HELD, KFD_FLAGS_VRAM, &bo));
	fixture_endless(&f, 4);
	tell("holds");
	for (;;)
		pause();
}

/* Fills VRAM at COMMON by CPU and GPU, while another container does so with other contents. */
TEST_TIMEOUT(contents_are_separate, 240)
{
	uint32_t seed = number("SEED"), *words;
	size_t filled = 1024;
	struct kfd_bo bo;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(alloc(&f.k, f.k.node.gpu_id, &bo));
	words = bo.va;
	ASSERT_OK(kfd_bo_map_cpu(&f.k, &bo));
	ASSERT_OK(kfd_bo_map_gpu(&f.k, &bo));
	pattern(words, bo.size, seed);
	ASSERT_OK(kfd_hdp_flush(&f.k));
	ASSERT_OK(fixture_fill(&f, &f.q, words, (uint32_t)filled, seed));
	tell(getenv("SEED"));
	await(getenv("OTHER_SEED"));
	for (size_t i = 0; i < filled; i++)
		ASSERT_EQ(words[i], seed);
	EXPECT(has_pattern(words + filled, bo.size - filled * 4, pattern_word(filled, seed)));
	EXPECT(fixture_works(&f));
}

/* The device cgroup denies the card while the process uses it: the process keeps it. */
TEST_TIMEOUT(open_card_stays, 240)
{
	char path[256];
	struct fixture f;

	fixture_launch(&f);
	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/properties", f.k.node.index);
	EXPECT_OK(read_byte(path));
	tell("open");
	await("denied");
	EXPECT_RET(read_byte(path), -EPERM);
	snprintf(path, sizeof(path), "/dev/dri/renderD%u", f.k.node.drm_render_minor);
	EXPECT_RET(kfd_open_file(path), -EPERM);
	EXPECT(fixture_works(&f));
}
