// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the removal of the PCI device, and unbinds, while memory is mapped for DMA: its IOMMU
 * domain ends with it, and freeing the memory later must not use the DMA addresses. The card may
 * have left the bus before its removal.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cards.h"
#include "device.h"
#include "knobs.h"
#include "leaks.h"
#include "svm.h"

/* Removes a device or its driver, and brings it back. */
struct way {
	int (*away)(void);
	int (*back)(void);
};

/* Much longer than a removal without timeouts of the absent card. */
#define REMOVAL_SECONDS 10
/* Includes the timeout of a preemption and the recovery from it. */
#define KILL_SECONDS 20

static int lose(void)
{
	double start = seconds_now();
	int log = kmsg_open(), ret;

	knob_set("pci.gone", 1);
	ret = device_remove();
	ktap_note("removed in %.1f s", seconds_now() - start);
	EXPECT(seconds_now() - start < REMOVAL_SECONDS * ktap_time_factor());
	/* There is nothing to reset. */
	EXPECT_EQ(kmsg_lines_with(log, "reset"), 0);
	close(log);
	return ret;
}

static int find_again(void)
{
	knob_set("pci.gone", 0);
	return device_rescan();
}

static const struct way unbound = { device_unbind, device_bind },
			removed = { device_remove, device_rescan }, lost = { lose, find_again };

/* Memory of each kind of a process, in use by the GPU. */
struct used {
	struct fixture f;
	struct pages user;
	struct kfd_bo *gtt, *vram, *doorbells, *registers;
};

static void use(struct used *u)
{
	const uint32_t shared = KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;

	fixture_launch(&u->f);
	register_new(&u->f.k, MIB, &u->user);
	ASSERT_OK(kfd_bo_create(&u->f.k, 3 * MIB, KFD_FLAGS_GTT, &u->gtt));
	ASSERT_OK(kfd_bo_create(&u->f.k, MIB, KFD_FLAGS_VRAM, &u->vram));
	ASSERT_OK(kfd_bo_alloc(&u->f.k, KFD_DOORBELL_SLICE,
			       KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | shared, &u->doorbells));
	ASSERT_OK(kfd_bo_map_gpu(&u->f.k, u->doorbells));
	ASSERT_OK(kfd_bo_alloc(&u->f.k, KFD_PAGE, KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP | shared,
			       &u->registers));
	ASSERT_OK(kfd_bo_map_gpu(&u->f.k, u->registers));
	EXPECT(gpu_writes(&u->f, &u->user, 0, 64, 5));
	ASSERT_OK(fixture_fill(&u->f, &u->f.q, u->gtt->va, 4096, 6));
	EXPECT(fixture_works(&u->f));
}

/*
 * Expects the error of a call about an object of a device that has gone. The C driver may also do
 * what is asked.
 */
static void expect_gone(const char *call, int ret, int error)
{
	EXPECT(ret == error || (!ktap_is_rkfd() && !ret), "%s: %s", call, ktap_errno_name(ret));
}

/* Frees all after the device has gone: its queues have gone with it. */
static void put(struct used *u)
{
	struct kfd_ioctl_destroy_queue_args destroy = { .queue_id = u->f.q.id };
	uint64_t bytes;

	if (ktap_is_rkfd())
		EXPECT_RET(kfd_available(&u->f.k, &bytes), -ENODEV);

	expect_gone("queue", kfd_ioctl(u->f.k.fd, AMDKFD_IOC_DESTROY_QUEUE, &destroy), -EINVAL);
	expect_gone("user memory", unregister(&u->f.k, &u->user), -ENODEV);
	expect_gone("registers", kfd_bo_free(&u->f.k, u->registers), -ENODEV);
	expect_gone("doorbells", kfd_bo_free(&u->f.k, u->doorbells), -ENODEV);
	expect_gone("VRAM", kfd_bo_free(&u->f.k, u->vram), -ENODEV);
	expect_gone("GTT", kfd_bo_free(&u->f.k, u->gtt), -ENODEV);
}

/* The process frees its memory and queues after the removal of the device. */
static void freed_without_device(void *way)
{
	const struct way *w = way;
	struct used u;

	use(&u);
	ASSERT_OK(w->away());
	EXPECT_EQ(*(uint32_t *)u.user.cpu, 5);
	put(&u);
	memset(u.user.cpu, 1, u.user.size);
	ASSERT_OK(w->back());
}

/* It frees nothing, and ends when the device is back. */
static void freed_at_exit(void *way)
{
	const struct way *w = way;
	struct used u;

	use(&u);
	ASSERT_OK(w->away());
	ASSERT_OK(w->back());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	/* The pages change that were mapped for the old device. */
	ASSERT(madvise(u.user.cpu, u.user.size, MADV_DONTNEED) == 0);
	memset(u.user.cpu, 2, u.user.size);
	_exit(0);
}

static void outlive(const struct way *w)
{
	/* The first process of the driver has lasting allocations. */
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	leaks_start();
	ASSERT_OK(ktap_in_child(freed_without_device, (void *)w));
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	ASSERT_OK(ktap_in_child(freed_at_exit, (void *)w));
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	leaks_expect_counters("memory of a device that has gone");
}

TEST_TIMEOUT(memory_outlives_the_device, 180)
{
	device_find();
	outlive(&unbound);
	outlive(&removed);
}

/* Returns a process that uses the device until it is killed. */
static pid_t start_user(void)
{
	int ready[2];
	pid_t child;
	char byte;

	ASSERT(!pipe(ready));
	child = fork_child();
	if (!child) {
		struct used u;

		use(&u);
		ASSERT(write(ready[1], "", 1) == 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ASSERT(read(ready[0], &byte, 1) == 1);
	close(ready[0]);
	return child;
}

static void kill_user(pid_t user)
{
	double start = seconds_now(), took;
	int status;

	kill(user, SIGKILL);
	ASSERT(waitpid(user, &status, 0) == user);
	took = seconds_now() - start;
	ktap_note("ended in %.1f s", took);
	EXPECT(took < KILL_SECONDS * ktap_time_factor());
}

/* A process is killed that has used the device, with the device gone. */
static void killed(const struct way *w)
{
	pid_t user;

	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	leaks_start();
	user = start_user();
	ASSERT_OK(w->away());
	kill_user(user);
	ASSERT_OK(w->back());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	leaks_expect_counters("a process killed without its device");
}

TEST_TIMEOUT(killed_without_device, 180)
{
	device_find();
	killed(&unbound);
	killed(&removed);
}

static void need_control(void)
{
	device_find();
	ASSERT(getenv("MODEL_CONTROL") != NULL);
	knobs_open();
}

TEST_TIMEOUT(memory_outlives_a_lost_card, 400)
{
	need_control();
	outlive(&lost);
}

TEST_TIMEOUT(killed_without_a_lost_card, 400)
{
	need_control();
	killed(&lost);
}

/* The card has left the bus, but the device is not removed yet. */
TEST_TIMEOUT(killed_before_the_removal, 400)
{
	pid_t user;
	int log;

	need_control();
	user = start_user();
	log = kmsg_open();
	knob_set("pci.gone", 1);
	kill_user(user);
	ASSERT_OK(lose());
	EXPECT_EQ(kmsg_lines_with(log, " was reset ("), 0);
	close(log);
	ASSERT_OK(find_again());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* Brings the GPU back: new processes use both. */
static void bring_back(const struct way *w)
{
	struct kfd_node nodes[2];

	ASSERT_OK(w->back());
	ASSERT_EQ(cards_find(nodes, 2), 2);
	for (int i = 0; i < 2; i++) {
		fixture_use_node(nodes[i].index);
		ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	}
}

/*
 * GTT and user memory of each of two GPUs is mapped on the other one when GPU `gone` goes. The GPU
 * that stays has the event page and the signals.
 */
static void shared_memory(const struct way *w, int gone)
{
	char path[128];
	struct kfd_node nodes[2], order[2];
	struct kfd_bo *bo[2];
	struct fixture f[2];
	struct pages p[2];

	if (cards_find(nodes, 2) < 2)
		SKIP("one GPU");
	order[0] = nodes[!gone];
	order[1] = nodes[gone];
	cards_launch_on(f, order);
	for (int i = 0; i < 2; i++) {
		ASSERT_OK(kfd_bo_create(&f[i].k, MIB, KFD_FLAGS_GTT, &bo[i]));
		ASSERT_OK(cards_map(&f[!i].k, bo[i]));
		register_new(&f[i].k, MIB, &p[i]);
		ASSERT_OK(cards_map(&f[!i].k, &p[i].bo));
	}
	for (int i = 0; i < 2; i++) {
		ASSERT_OK(fixture_fill(&f[!i], &f[!i].q, bo[i]->va, 4096, 1));
		EXPECT(gpu_writes(&f[!i], &p[i], 0, 64, 2));
	}
	device_find();
	snprintf(path, sizeof(path), "/sys/devices/virtual/kfd/kfd/proc/%d/queues/%u", getpid(),
		 f[1].q.id);
	EXPECT(!access(path, F_OK));
	ASSERT_OK(w->away());
	EXPECT(access(path, F_OK), "%s", path);
	/* The memory of the GPU that is left is still mapped there. */
	ASSERT_OK(fixture_fill(&f[0], &f[0].q, bo[0]->va, 4096, 3));
	EXPECT_EQ(*(uint32_t *)bo[0]->va, 3);
	ASSERT(madvise(p[0].cpu, MIB, MADV_DONTNEED) == 0);
	EXPECT(gpu_writes(&f[0], &p[0], 0, 64, 4));
	EXPECT_OK(kfd_bo_free(&f[0].k, bo[0]));
	EXPECT_OK(unregister(&f[0].k, &p[0]));
	expect_gone("GTT", kfd_bo_free(&f[1].k, bo[1]), -ENODEV);
	expect_gone("user memory", unregister(&f[1].k, &p[1]), -ENODEV);
	bring_back(w);
}

TEST_TIMEOUT(first_is_unbound, 120)
{
	shared_memory(&unbound, 0);
}

TEST_TIMEOUT(second_is_unbound, 120)
{
	shared_memory(&unbound, 1);
}

TEST_TIMEOUT(first_is_removed, 120)
{
	shared_memory(&removed, 0);
}

TEST_TIMEOUT(second_is_removed, 120)
{
	shared_memory(&removed, 1);
}

/* The attributes of memory that both GPUs may access can be changed when one has gone. */
static void shared_range(const struct way *w, int gone)
{
	const uint32_t in_place = KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE;
	struct kfd_node nodes[2], order[2];
	struct fixture f[2];
	char *p;

	if (cards_find(nodes, 2) < 2)
		SKIP("one GPU");
	order[0] = nodes[!gone];
	order[1] = nodes[gone];
	cards_launch_on(f, order);
	svm_needed(&f[0].k);
	p = anonymous_huge();
	ASSERT_OK(svm_set(&f[0].k, p, MIB, { in_place, order[0].gpu_id },
			  { in_place, order[1].gpu_id }));
	for (int i = 0; i < 2; i++)
		EXPECT(svm_works(&f[i], p, 4 * KFD_PAGE, 0x100));
	device_find();
	ASSERT_OK(w->away());
	EXPECT_OK(svm_set(&f[0].k, p, MIB,
			  { KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_EXEC }));
	EXPECT_OK(svm_set(&f[0].k, p, 16 * KFD_PAGE,
			  { KFD_IOCTL_SVM_ATTR_NO_ACCESS, order[0].gpu_id }));
	EXPECT_OK(svm_set(&f[0].k, p, 16 * KFD_PAGE, { in_place, order[0].gpu_id }));
	EXPECT(svm_works(&f[0], p, 32 * KFD_PAGE, 0x200));
	bring_back(w);
}

TEST_TIMEOUT(range_of_the_first_that_is_unbound, 120)
{
	shared_range(&unbound, 0);
}

TEST_TIMEOUT(range_of_the_second_that_is_unbound, 120)
{
	shared_range(&unbound, 1);
}
