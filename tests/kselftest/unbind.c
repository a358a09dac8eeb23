// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests driver unbind and bind while the GPU is in use. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cs.h"
#include "debugger.h"
#include "device.h"
#include "svm.h"

TEST_TIMEOUT(idle, 120)
{
	char listed[128];

	device_find();
	snprintf(listed, sizeof(listed), "/sys/module/amdgpu/drivers/pci:amdgpu/%s", device_name());
	for (int i = 0; i < 3; i++) {
		EXPECT(!access(listed, F_OK));
		ASSERT_OK(device_unbind());
		EXPECT(access(listed, F_OK) && errno == ENOENT);
		ASSERT_OK(device_bind());
		ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	}
}

/* Every ioctl that needs the GPU fails; none hangs or crashes. */
TEST_TIMEOUT(open_queue, 120)
{
	struct kfd_ioctl_destroy_queue_args destroy;
	struct kfd_ioctl_get_version_args version = { 0 };
	struct kfd_ioctl_set_scratch_backing_va_args scratch = { 0 };
	struct kfd_ioctl_create_queue_args again;
	struct kfd_event_data data = { 0 };
	uint32_t result, id;
	struct kfd_queue q;
	struct kfd_bo *bo;
	uint64_t bytes;
	struct fixture f;

	device_find();
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	scratch.gpu_id = f.k.node.gpu_id;
	ASSERT_OK(kfd_queue_prepare(&f.k, &q, 64, &again));
	ASSERT_OK(device_unbind());
	EXPECT(access("/dev/kfd", F_OK) == 0);
	EXPECT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_GET_VERSION, &version));
	EXPECT_EQ(version.major_version, 1);
	EXPECT_RET(kfd_queue_start(&q, &again), -ENODEV);
	/* Its ring is not mapped any more, which is checked first. */
	EXPECT_RET(fixture_update_queue(&f.q, 100), -EFAULT);
	EXPECT_RET(kfd_bo_create(&f.k, 65536, KFD_FLAGS_GTT, &bo), -ENODEV);
	EXPECT_RET(kfd_bo_map_gpu(&f.k, f.data), -ENODEV);
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &scratch), -ENODEV);
	EXPECT_RET(kfd_available(&f.k, &bytes), -ENODEV);
	/* Events do not need the GPU. */
	EXPECT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_SIGNAL, true, &id));
	EXPECT_OK(kfd_event_set(&f.k, id));
	data.event_id = id;
	EXPECT_OK(kfd_event_wait(&f.k, &data, 1, true, 0, &result));
	EXPECT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	/* Objects can be released, with or without an error. */
	destroy.queue_id = f.q.id;
	kfd_ioctl(f.k.fd, AMDKFD_IOC_DESTROY_QUEUE, &destroy);
	kfd_bo_free(&f.k, f.data);
	ASSERT_OK(device_bind());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* Memory that was migrated to VRAM comes back before the GPU goes. */
TEST_TIMEOUT(memory_in_vram, 120)
{
	const size_t count = 6 * MIB / 4;
	struct fixture f;
	uint32_t *words;

	device_find();
	fixture_launch(&f);
	svm_needed(&f.k);
	words = (uint32_t *)anonymous(count * 4);
	for (size_t i = 0; i < count; i++)
		words[i] = (uint32_t)i * 5 + 1;
	ASSERT_OK(svm_to_vram(&f.k, words, count * 4));
	ASSERT_OK(fixture_fill(&f, &f.q, words + 8192, 1024, 0x5a5a));
	ASSERT_OK(device_unbind());
	for (size_t i = 0; i < count; i++) {
		uint32_t want = i >= 8192 && i < 9216 ? 0x5a5a : (uint32_t)i * 5 + 1;

		ASSERT(words[i] == want, "word %zu: %#x, not %#x", i, words[i], want);
	}
	EXPECT(svm_set(&f.k, words, count * 4,
		       { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, f.k.node.gpu_id }) < 0);
	ASSERT_OK(device_bind());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* A store to a doorbell of a removed GPU must not reach a device that gets the address next. */
TEST_TIMEOUT(mapped_doorbell, 120)
{
	struct fixture f;
	int status;
	pid_t child;

	device_find();
	child = fork_child();
	if (!child) {
		fixture_launch(&f);
		EXPECT(fixture_works(&f));
		ASSERT_OK(device_unbind());
		*f.q.doorbell = 1;
		_exit(0);
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "status %#x", status);
	ASSERT_OK(device_bind());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/*
 * An exported BO outlives its GPU: mappings show zeroes, as Documentation/gpu/drm-uapi.rst of the
 * kernel requires. It holds a module reference.
 */
static void share(void *data)
{
	struct kfd_ioctl_get_dmabuf_info_args info = { 0 };
	struct kfd_ioctl_import_dmabuf_args import = { 0 };
	struct kfd_ioctl_export_dmabuf_args args = { 0 };
	volatile uint32_t *words;
	struct kfd_bo *bo;
	struct kfd k;
	int status;
	pid_t child;

	fixture_open(&k);
	ASSERT_OK(kfd_bo_create(&k, 65536, *(uint32_t *)data, &bo));
	args.handle = bo->handle;
	ASSERT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_EXPORT_DMABUF, &args));
	words = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, (int)args.dmabuf_fd, 0);
	ASSERT(words != MAP_FAILED);
	words[0] = 1;
	ASSERT_OK(device_unbind());
	info.dmabuf_fd = import.dmabuf_fd = args.dmabuf_fd;
	import.gpu_id = k.node.gpu_id;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_GET_DMABUF_INFO, &info), -ENODEV);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_IMPORT_DMABUF, &import), -ENODEV);
	child = fork_child();
	if (!child) {
		_exit(words[0] || words[16383]);
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(!status, "status %#x", status);
	words[0] = 2;
	EXPECT_EQ(words[0], 2);
	ASSERT_OK(device_bind());
	/* The GPU is a new device; the BO belongs to the old one. */
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_GET_DMABUF_INFO, &info), -ENODEV);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	munmap((void *)words, 65536);
	kfd_close(&k);
	EXPECT_EQ(lseek((int)args.dmabuf_fd, 0, SEEK_END), 65536);
	EXPECT(syscall(SYS_delete_module, "rkfd", O_NONBLOCK) < 0 && errno == EWOULDBLOCK, "%s",
	       strerrorname_np(errno));
}

TEST_TIMEOUT(exported_bo, 120)
{
	uint32_t kinds[] = { KFD_FLAGS_GTT, KFD_FLAGS_VRAM };

	device_find();
	for (int i = 0; i < 2; i++)
		ASSERT_OK(ktap_in_child(share, &kinds[i]));
}

/* A userptr BO: the memory remains the process's. */
TEST_TIMEOUT(userptr_bo, 120)
{
	struct fixture f;
	struct pages p, q;
	int status, ready[2];
	pid_t child;

	device_find();
	fixture_launch(&f);
	register_new(&f.k, 64 * KFD_PAGE, &p);
	ASSERT(gpu_writes(&f, &p, 5 * KFD_PAGE, 64, 77));
	ASSERT(pipe(ready) == 0);
	child = fork_child();
	if (!child) {
		struct fixture other;

		/* The process changes the mapping during the unbind. */
		fixture_launch(&other);
		register_new(&other.k, 64 * KFD_PAGE, &p);
		for (int i = 0;; i++) {
			madvise(p.cpu, p.size, MADV_DONTNEED);
			memset(p.cpu, 1, p.size);
			if (i == 3)
				ASSERT(write(ready[1], "", 1) == 1);
		}
	}
	wait_for_byte(ready[0]);
	ASSERT_OK(device_unbind());
	EXPECT(*(uint32_t *)(p.cpu + 5 * KFD_PAGE) == 77);
	ASSERT(madvise(p.cpu, p.size, MADV_DONTNEED) == 0);
	EXPECT_RET(try_register(&f.k, p.cpu, p.gpu, p.size, FLAGS, &q), -ENODEV);
	unregister(&f.k, &p);
	kill(child, SIGKILL);
	ASSERT(waitpid(child, &status, 0) == child);
	ASSERT_OK(device_bind());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	ASSERT(munmap(p.cpu, p.size) == 0);
}

/* Waits for an exception of the GPU, or for a signal by it. */
static void wait_for_gpu(bool exception, int ready)
{
	struct fixture f;
	uint32_t event;

	fixture_launch(&f);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	ASSERT(write(ready, "", 1) == 1);
	if (exception)
		EXPECT_EQ(expect_hang_event(&f.k, event, WAIT_MS), 1);
	else
		EXPECT_EQ(event_result(&f.k, f.signal.event_id, WAIT_MS),
			  KFD_IOC_WAIT_RESULT_COMPLETE);
	ktap_end();
}

/* Processes waiting for the GPU are woken. */
TEST_TIMEOUT(waiting_process, 120)
{
	pid_t children[2];
	int status;

	device_find();
	for (int i = 0; i < 2; i++) {
		int ready[2];

		ASSERT(pipe(ready) == 0);
		children[i] = fork_child();
		if (!children[i])
			wait_for_gpu(i == 0, ready[1]);
		wait_for_sleep(ready[0], children[i]);
	}
	ASSERT_OK(device_unbind());
	for (int i = 0; i < 2; i++) {
		ASSERT(waitpid(children[i], &status, 0) == children[i]);
		EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	}
	ASSERT_OK(device_bind());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* A file of the card, and one of its hardware monitoring device. */
#define CARD_FILE "board_info"
#define SENSOR_FILE "power1_cap"

/* As udev, looks for the files of each device when it is announced, until the driver is bound. */
static void read_uevents(int uevents, bool has_hwmon)
{
	bool hwmon = false, drm = false;
	char text[8192], path[8300];
	struct kfd_node node;
	ssize_t n;

	do {
		n = recv(uevents, text, sizeof(text) - 1, 0);
		ASSERT(n > 0, "uevents: %s", strerror(errno));
		text[n] = 0;
		if (strncmp(text, "add@", 4))
			continue;
		if (strstr(text, "/hwmon/hwmon")) {
			snprintf(path, sizeof(path), "/sys%s/" SENSOR_FILE, text + 4);
			EXPECT(!access(path, F_OK), "%s: no " SENSOR_FILE, text);
			EXPECT(!drm, "%s after those of DRM", text);
			hwmon = true;
		} else if (strstr(text, "/drm/")) {
			EXPECT(drm || device_has(CARD_FILE), "%s: no " CARD_FILE, text);
			EXPECT(drm || !kfd_topology_find_gpu(&node), "%s: no GPU in the topology",
			       text);
			drm = true;
		}
	} while (strncmp(text, "bind@", 5));
	EXPECT(drm && hwmon == has_hwmon);
	ktap_end();
}

/*
 * Rules of udev, and programs that it notifies, find the files of a device and its nodes in the
 * topology. May pass wrongly if the child runs after the probe; the order of hwmon and DRM is that
 * of the messages.
 */
TEST_TIMEOUT(files_precede_uevents, 120)
{
	int uevents, status;
	bool has_hwmon;
	pid_t child;

	device_find();
	has_hwmon = device_has("hwmon");
	ASSERT_OK(device_unbind());
	uevents = uevents_open();
	child = fork_child();
	if (!child)
		read_uevents(uevents, has_hwmon);
	ASSERT_OK(device_bind());
	ASSERT(waitpid(child, &status, 0) == child);
}

/* A driver that follows can enable the device again. */
TEST_TIMEOUT(device_is_disabled, 120)
{
	char enabled[16];

	device_find();
	for (int i = 0; i < 2; i++) {
		ASSERT_OK(device_unbind());
		device_get("enable", enabled, sizeof(enabled));
		EXPECT_EQ(atoi(enabled), 0);
		ASSERT_OK(device_bind());
	}
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* Running and pending jobs end, and so do waits for them. */
TEST_TIMEOUT(pending_jobs, 120)
{
	union drm_amdgpu_fence_to_handle args = { 0 };
	struct pollfd p = { .events = POLLIN };
	struct cs_waiter w = { 0 };
	pthread_t thread;
	uint64_t busy;
	struct cs cs;

	device_find();
	for (int i = 0; i < 3; i++) {
		cs_open(&cs);
		w.cs = &cs;
		/* The engine polls a dword that is never written. */
		for (int n = 0; n < 8; n++)
			ASSERT_OK(cs_run(&cs, 0, cs_poll(&cs, cs.data.va, 1), &w.handle));
		args.in.fence.ctx_id = cs.ctx;
		args.in.fence.ip_type = AMDGPU_HW_IP_DMA;
		args.in.fence.seq_no = w.handle;
		args.in.what = AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD;
		ASSERT_OK(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_FENCE_TO_HANDLE, &args));
		p.fd = (int)args.out.handle;
		EXPECT(poll(&p, 1, 0) == 0);
		ASSERT(pthread_create(&thread, NULL, cs_wait_in_thread, &w) == 0);
		usleep(100000);
		ASSERT_OK(device_unbind());
		pthread_join(thread, NULL);
		EXPECT_RET(w.ret, -ECANCELED);
		EXPECT(poll(&p, 1, 0) == 1);
		close(p.fd);
		EXPECT_RET(cs_run(&cs, 1, (struct cs_ib){ cs.code.va, 4 }, NULL), -ENODEV);
		EXPECT_RET(cs_wait(&cs, 0, w.handle, 0, &busy), -ENODEV);
		EXPECT_RET(cs_ctx_alloc(cs.fd, &cs.ctx), -ENODEV);
		if (i != 1)
			close(cs.fd);
		ASSERT_OK(device_bind());
		if (i == 1)
			close(cs.fd);
		cs_open(&cs);
		ASSERT_OK(cs_run(&cs, 0, cs_write(&cs, cs.data.va, 7), &w.handle));
		cs_done(&cs, 0, w.handle);
		EXPECT_EQ(cs.data.words[0], 7);
		close(cs.fd);
	}
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* DESTROY_QUEUE of a queue that a debugger suspends does not wait for a removed GPU. */
TEST_TIMEOUT(suspended_queue, 120)
{
	struct session s;
	struct fixture f;
	struct caller c;

	device_find();
	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	destroy_suspended(&s, &c, &f.q);
	ASSERT_OK(device_unbind());
	EXPECT_RET(end_call(&c), -EINVAL);
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	ASSERT_OK(device_bind());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

#define ARGUMENT_PAGES 4096u

/*
 * Launches kernels, each with arguments in a page that was not accessed before. Writes to `ready`
 * after the first one.
 */
static void launch_from_new_pages(int ready)
{
	struct kfd_bo *pages, page;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, ARGUMENT_PAGES * KFD_PAGE, KFD_FLAGS_GTT, &pages));
	page = *pages;
	f.kernarg = &page;
	for (uint32_t i = 0; i < ARGUMENT_PAGES; i++) {
		/* Fails once the device is unbound. */
		if (fixture_fill(&f, &f.q, f.data->va, 64, i))
			break;
		page.va = (char *)page.va + KFD_PAGE;
		if (!i)
			ASSERT(write(ready, "", 1) == 1);
	}
	pause();
	_exit(0);
}

/*
 * No kernel is executed with arguments other than those that its program has written: CPU accesses
 * to an unbound device go to other pages.
 */
TEST_TIMEOUT(arguments_of_launches, 120)
{
	int log;

	device_find();
	log = kmsg_open();
	for (int i = 0; i < 4; i++) {
		pid_t children[2];
		int status, ready[2];

		ASSERT(pipe(ready) == 0);
		for (int c = 0; c < 2; c++) {
			children[c] = fork_child();
			if (!children[c])
				launch_from_new_pages(ready[1]);
		}
		for (int c = 0; c < 2; c++)
			wait_for_byte(ready[0]);
		close(ready[0]);
		close(ready[1]);
		ASSERT_OK(device_unbind());
		for (int c = 0; c < 2; c++) {
			kill(children[c], SIGKILL);
			ASSERT(waitpid(children[c], &status, 0) == children[c]);
			EXPECT(WIFSIGNALED(status), "status %#x", status);
		}
		EXPECT_EQ(kmsg_lines_with(log, "VM fault"), 0);
		ASSERT_OK(device_bind());
	}
	close(log);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}
