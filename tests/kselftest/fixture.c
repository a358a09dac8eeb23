// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Opens the GPU, creates queues and launches kernels, see fixture.h. */
#define _GNU_SOURCE
#include "fixture.h"

#include <drm/amdgpu_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

void fixture_open_only(struct kfd *k)
{
	ASSERT_OK(kfd_open_device(k));
	ASSERT_OK(kfd_topology_find_gpu(&k->node));
	ASSERT_OK(kfd_open_render(k));
	ASSERT_OK(kfd_get_apertures(k));
}

void fixture_open(struct kfd *k)
{
	fixture_open_only(k);
	ASSERT_OK(kfd_acquire_vm(k));
}

int fixture_hold(void *start, size_t size, uint64_t mode)
{
	return fixture_hold_for(start, size, mode, 0);
}

int fixture_hold_for(void *start, size_t size, uint64_t mode, int flags)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = mode, .range = { kfd_va(start), size } };
	/* poll() does not wait for a file without O_NONBLOCK. */
	int file = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags);

	if (file < 0)
		SKIP("no userfaultfd");
	if (mode == UFFDIO_REGISTER_MODE_WP)
		api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
	ASSERT(!ioctl(file, UFFDIO_API, &api));
	ASSERT(!ioctl(file, UFFDIO_REGISTER, &range));
	return file;
}

char *held_page(int *userfaults)
{
	char *page = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT(page != MAP_FAILED);
	*userfaults = fixture_hold(page, KFD_PAGE, UFFDIO_REGISTER_MODE_MISSING);
	return page;
}

void wait_for_access(int userfaults)
{
	struct pollfd event = { .fd = userfaults, .events = POLLIN };

	ASSERT(poll(&event, 1, (int)WAIT_MS) == 1 && event.revents == POLLIN, "%#x",
	       event.revents);
}

void end_hold(int userfaults, char *page)
{
	struct uffdio_zeropage zero = { .range = { .start = kfd_va(page), .len = KFD_PAGE } };

	ASSERT(!ioctl(userfaults, UFFDIO_ZEROPAGE, &zero));
}

void fixture_use_node(int index)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", index);
	ASSERT(!setenv("KFD_NODE", number, 1));
}

void fixture_load(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	fixture_open(&f->k);
	fixture_load_opened(f);
}

void fixture_load_opened(struct fixture *f)
{
	ASSERT_OK(kfd_kernels(&f->k, &f->code));
	ASSERT_OK(kfd_bo_create(&f->k, 1 << 20, KFD_FLAGS_GTT, &f->data));
	ASSERT_OK(kfd_bo_create(&f->k, 64 * 256, KFD_FLAGS_GTT, &f->kernarg));
	ASSERT_OK(kfd_signal_create(&f->k, 0, &f->signal));
}

void fixture_launch(struct fixture *f)
{
	fixture_load(f);
	ASSERT_OK(kfd_queue_create(&f->k, &f->q, 64));
}

void fixture_open_context(struct kfd *k)
{
	fixture_open_only(k);
	ASSERT_OK(kfd_create_process(k));
	ASSERT_OK(kfd_acquire_vm(k));
}

void fixture_launch_context(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	fixture_open_context(&f->k);
	fixture_load_opened(f);
	ASSERT_OK(kfd_queue_create(&f->k, &f->q, 64));
}

int fixture_kernel(struct fixture *f, const char *name, struct kfd_kernel *kernel)
{
	return kfd_code_kernel(&f->code, name, kernel);
}

void fixture_fill_start(struct fixture *f, struct kfd_queue *q, struct kfd_signal *signal,
			unsigned int slot, uint32_t *data, uint32_t count, uint32_t value)
{
	const uint32_t grid[3] = { count, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	char *kernarg = (char *)f->kernarg->va + (slot & 63) * 256;
	struct aql_dispatch packet;
	struct kfd_kernel kernel;
	uint64_t to = kfd_va(data);

	ASSERT_OK(fixture_kernel(f, "fill", &kernel));
	memcpy(kernarg, &to, sizeof(to));
	memcpy(kernarg + 8, &value, sizeof(value));
	if (signal)
		signal->s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, signal);
	kfd_queue_ring(q, kfd_queue_write(q, &packet));
}

int fixture_fill(struct fixture *f, struct kfd_queue *q, uint32_t *data, uint32_t count,
		 uint32_t value)
{
	fixture_fill_start(f, q, &f->signal, 0, data, count, value);
	return kfd_signal_wait(&f->k, &f->signal, WAIT_MS);
}

void fixture_start(struct fixture *f, const char *name, uint64_t first, uint32_t second)
{
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	struct aql_dispatch packet;
	struct kfd_kernel kernel;

	ASSERT_OK(fixture_kernel(f, name, &kernel));
	memcpy(f->kernarg->va, &first, 8);
	memcpy((char *)f->kernarg->va + 8, &second, 4);
	f->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, f->kernarg->va, &f->signal);
	kfd_queue_ring(&f->q, kfd_queue_write(&f->q, &packet));
}

int fixture_update_queue(struct kfd_queue *q, uint32_t percent)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = kfd_va(q->ring->va),
		.queue_id = q->id,
		.ring_size = (uint32_t)q->ring->size,
		.queue_percentage = percent,
		.queue_priority = 7,
	};

	return kfd_ioctl(q->k->fd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

bool fixture_works(struct fixture *f)
{
	uint32_t *words = f->data->va;
	static uint32_t value = 0x1234;

	value = value * 69069 + 1;
	memset(words, 0, 4096);
	if (!EXPECT_OK(fixture_fill(f, &f->q, words, 1000, value)))
		return false;
	for (int i = 0; i < 1000; i++)
		if (!EXPECT_EQ(words[i], value))
			return false;
	return EXPECT_EQ(words[1000], 0);
}

uint64_t process_number(struct kfd *k, const char *folder, const char *file)
{
	unsigned long long number = 0;
	char path[160];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/virtual/kfd/kfd/proc/%d/%s_%u%s%s", getpid(),
		 folder, k->node.gpu_id, file ? "/" : "", file ? file : "");
	f = fopen(path, "r");
	ASSERT(f != NULL, "%s", path);
	EXPECT(fscanf(f, "%llu", &number) == 1);
	fclose(f);
	return number;
}

uint64_t evicted_ms(struct kfd *k)
{
	return process_number(k, "stats", "evicted_ms");
}

void need_mes(void)
{
	if (!gpu_is_gfx12())
		SKIP("no MES");
}

void need_debugfs(const char *file)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/debug/kfd/%s", file);
	if (access(path, F_OK))
		SKIP("no kfd/%s in debugfs", file);
}

long gart_pages(void)
{
	char line[256];
	long used = -1;
	FILE *f;

	need_debugfs("rings");
	f = fopen("/sys/kernel/debug/kfd/rings", "r");
	ASSERT(f != NULL);
	while (used < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "  GART: %ld of", &used) != 1)
			used = -1;
	fclose(f);
	ASSERT(used >= 0);
	return used;
}

uint64_t vram_bytes(struct kfd *k)
{
	struct drm_amdgpu_info_vram_gtt sizes = { 0 };
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&sizes),
					   .return_size = sizeof(sizes),
					   .query = AMDGPU_INFO_VRAM_GTT };

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_INFO, &request));
	return sizes.vram_size;
}

uint64_t small_vram_bytes(struct kfd *k)
{
	uint64_t vram = vram_bytes(k);

	if (vram > 1ull << 30)
		SKIP("%llu MiB of VRAM", (unsigned long long)vram >> 20);
	if (!k->node.large_bar)
		SKIP("VRAM is not mapped by the BAR");
	return vram;
}

uint64_t all_vram_bytes(struct kfd *k)
{
	struct drm_amdgpu_memory_info memory = { 0 };
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&memory),
					   .return_size = sizeof(memory),
					   .query = AMDGPU_INFO_MEMORY };

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_INFO, &request));
	return memory.vram.total_heap_size;
}

void fixture_endless(struct fixture *f, unsigned int groups)
{
	const uint32_t grid[3] = { groups * 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	volatile uint32_t *flags = f->data->va;
	uint64_t *kernarg = f->kernarg->va;
	struct aql_dispatch packet;
	struct kfd_kernel kernel;

	ASSERT_OK(fixture_kernel(f, "endless", &kernel));
	flags[0] = flags[1] = 0;
	kernarg[0] = kfd_va((void *)&flags[0]);
	kernarg[1] = kfd_va((void *)&flags[1]);
	f->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, &f->signal);
	kfd_queue_ring(&f->q, kfd_queue_write(&f->q, &packet));
	for (int i = 0; i < 10000 && !flags[0]; i++)
		usleep(1000);
	ASSERT(flags[0] != 0, "kernel did not start");
}

int enable_runtime(struct kfd *k, uint32_t mode)
{
	struct kfd_ioctl_runtime_enable_args args = { .mode_mask = mode };

	return kfd_ioctl(k->fd, AMDKFD_IOC_RUNTIME_ENABLE, &args);
}

void fixture_wait_for_reset(void *unused)
{
	double end = seconds_now() + RESET_SECONDS;
	struct kfd_queue q;
	struct kfd k;
	int rc = -EIO;

	(void)unused;
	fixture_open(&k);
	while (rc != 0 && seconds_now() < end) {
		usleep(100000);
		rc = kfd_queue_create(&k, &q, 64);
	}
	ASSERT_OK(rc);
}

uint32_t fixture_memory_event(struct fixture *f)
{
	uint32_t id;

	/* The C driver up to 7.2 also sends SIGSEGV. */
	signal(SIGSEGV, SIG_IGN);
	ASSERT_OK(kfd_event_create(&f->k, KFD_IOC_EVENT_MEMORY, false, &id));
	return id;
}

void fixture_lives(void *unused)
{
	struct fixture f;

	(void)unused;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

void fixture_leaves_queue(void *unused)
{
	struct fixture f;

	(void)unused;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
}

void fixture_tries_queue(void *unused)
{
	struct kfd_queue q;
	struct kfd k;
	int ret;

	(void)unused;
	fixture_open_only(&k);
	ret = kfd_acquire_vm(&k);
	/* During a reset. */
	if (ret == -EIO)
		return;
	ASSERT_OK(ret);
	ret = kfd_queue_create(&k, &q, 64);
	EXPECT(!ret || ret == -EIO || ret == -ENODEV, "%s", ktap_errno_name(ret));
	if (!ret)
		kfd_queue_destroy(&q);
}

void fixture_opens(void *unused)
{
	struct kfd k;

	(void)unused;
	fixture_open(&k);
}

bool memory_fails(void)
{
	return getenv("KFD_FAIL_NTH") != NULL;
}

pid_t fork_child(void)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	ASSERT(child >= 0);
	return child;
}

void wait_for_byte(int fd)
{
	char byte;

	ASSERT(read(fd, &byte, 1) == 1, "the child ended early");
}

void wait_for_sleep(int fd, pid_t child)
{
	char path[64], state = 0;
	FILE *file;

	wait_for_byte(fd);
	snprintf(path, sizeof(path), "/proc/%d/stat", child);
	for (int i = 0; i < 2000 && state != 'S'; i++) {
		usleep(10000);
		file = fopen(path, "r");
		ASSERT(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1, "no state in %s", path);
		fclose(file);
	}
	ASSERT(state == 'S', "the child has state %c", state);
}

void send_fd(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = { 0 }, byte = 0;
	struct iovec vec = { &byte, 1 };
	struct msghdr message = { .msg_iov = &vec,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	ASSERT(sendmsg(socket, &message, 0) == 1);
}

int receive_fd(int socket)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec vec = { &byte, 1 };
	struct msghdr message = { .msg_iov = &vec,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	int fd = -1;

	ASSERT(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1);
	c = CMSG_FIRSTHDR(&message);
	ASSERT(c && c->cmsg_type == SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

uint64_t amdgpu_info(struct kfd *k, uint32_t query)
{
	uint64_t value = 0;
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&value),
					   .return_size = sizeof(value),
					   .query = query };

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_INFO, &request));
	return value;
}

void expect_usage(struct kfd *k, uint32_t query, uint64_t most)
{
	for (int i = 0; i < 50 && amdgpu_info(k, query) > most; i++)
		usleep(100000);
	EXPECT(amdgpu_info(k, query) <= most, "%llu bytes, %llu before",
	       (unsigned long long)amdgpu_info(k, query), (unsigned long long)most);
}

bool becomes(const volatile uint32_t *word, uint32_t value, unsigned int ms)
{
	for (unsigned int i = 0; i < ms && *word != value; i++)
		usleep(1000);
	return *word == value;
}

uint32_t event_result(struct kfd *k, uint32_t id, uint32_t ms)
{
	struct kfd_event_data data = { .event_id = id };
	uint32_t result = 99;

	EXPECT_OK(kfd_event_wait(k, &data, 1, true, ms, &result));
	return result;
}

uint32_t expect_hang_event(struct kfd *k, uint32_t id, uint32_t ms)
{
	struct kfd_event_data data = { .event_id = id };
	uint32_t result = 99;

	ASSERT_OK(kfd_event_wait(k, &data, 1, true, ms, &result));
	EXPECT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(data.hw_exception_data.gpu_id, k->node.gpu_id);
	EXPECT_EQ(data.hw_exception_data.reset_cause, KFD_HW_EXCEPTION_GPU_HANG);
	return data.hw_exception_data.memory_lost;
}

double unmap_timeout(void)
{
	const char *parameter = getenv("PREEMPTION_TIMEOUT");

	return parameter ? atof(parameter) : 9;
}

void expect_stuck_call(double seconds)
{
	double all = unmap_timeout();

	ktap_note("the queue was reset after %.1f s", seconds);
	EXPECT(seconds > 0.4 * all && seconds < all * ktap_time_factor(), "after %.1f s", seconds);
}

int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC), ret = 0;
	ssize_t written;

	if (fd < 0)
		return -errno;
	written = write(fd, text, strlen(text));
	if (written < 0)
		ret = -errno;
	else if ((size_t)written != strlen(text))
		ret = -EIO;
	close(fd);
	return ret;
}

bool gpu_is_gfx12(void)
{
	struct kfd_node node;

	ASSERT_OK(kfd_topology_find_gpu(&node));
	return is_gfx12(&node);
}

void pattern(uint32_t *words, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes / 4; i++)
		words[i] = pattern_word(i, seed);
}

bool has_pattern(const uint32_t *words, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes / 4; i++)
		if (!EXPECT(words[i] == pattern_word(i, seed), "dword %zu of %p is %#x", i,
			    (const void *)words, words[i]))
			return false;
	return true;
}

/* Seed of the pattern of fixture_keep(). */
#define KEPT 0x6b657074u

struct kfd_bo *fixture_keep(struct kfd *k)
{
	struct kfd_bo *bo;

	ASSERT_OK(kfd_bo_create(k, 1 << 20, KFD_FLAGS_VRAM, &bo));
	pattern(bo->va, bo->size, KEPT);
	return bo;
}

void fixture_expect_kept(const struct kfd_bo *kept)
{
	has_pattern(kept->va, kept->size, KEPT);
}
