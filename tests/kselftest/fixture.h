/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Fixtures: an open GPU, and a queue with loaded kernels. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <linux/userfaultfd.h>
#include <sys/types.h>

#include "../workloads/kfd.h"
#include "ktap.h"

#define WAIT_MS (20000u * ktap_time_factor())
/* Bound on a reset of the GPU. */
#define RESET_SECONDS (30.0 * ktap_time_factor())
/* Pause after each launch of a process that runs beside the tested one until it is stopped. */
#define PAUSE_US 5000
/* A gpu_id that no node has: valid ones have 16 bits. */
#define NO_SUCH_GPU 0x7fff0001u
/* A kernel address. */
#define KERNEL_ADDRESS 0xffff800000000000ull

struct fixture {
	struct kfd k;
	struct kfd_queue q;
	struct kfd_code code;
	struct kfd_bo *data, *kernarg;
	struct kfd_signal signal;
};

/* Opens the GPU and acquires its VM. Ends the test on failure. */
void fixture_open(struct kfd *k);
/* Same without ACQUIRE_VM. */
void fixture_open_only(struct kfd *k);
/* As fixture_open() and fixture_launch() as a secondary process. */
void fixture_open_context(struct kfd *k);
void fixture_launch_context(struct fixture *f);
/* Opens the GPU, loads the kernels, allocates 1 MiB of data; all in GTT, without a queue. */
void fixture_load(struct fixture *f);
/* Same for a GPU that is open. */
void fixture_load_opened(struct fixture *f);
/* Makes a node the GPU of fixtures, kfd_topology_find_gpu() and device_find(): sets $KFD_NODE. */
void fixture_use_node(int index);
/* As fixture_load() with a queue. */
void fixture_launch(struct fixture *f);
/*
 * Sets `count` dwords at data to `value` with the fill kernel; waits. Returns 0 or a negative
 * errno.
 */
int fixture_fill(struct fixture *f, struct kfd_queue *q, uint32_t *data, uint32_t count,
		 uint32_t value);
/* Dispatches the fill kernel without waiting. `slot` selects one of 64 kernarg slots. */
void fixture_fill_start(struct fixture *f, struct kfd_queue *q, struct kfd_signal *signal,
			unsigned int slot, uint32_t *data, uint32_t count, uint32_t value);
/* Dispatches a kernel with two arguments, by one workgroup of 64 work-items, without waiting. */
void fixture_start(struct fixture *f, const char *name, uint64_t first, uint32_t second);
/* UPDATE_QUEUE with the ring that the queue has. Returns 0 or a negative errno. */
int fixture_update_queue(struct kfd_queue *q, uint32_t percent);
/* Fills and compares; a mismatch is a failure of the test. */
bool fixture_works(struct fixture *f);
/*
 * Dispatches `groups` workgroups that end when word 1 of the data is set; waits until the first one
 * runs.
 */
void fixture_endless(struct fixture *f, unsigned int groups);
/* Same with a queue of its own, for ktap_in_child. */
void fixture_lives(void *unused);
/* Same, but its exit destroys the queue. */
void fixture_leaves_queue(void *unused);
/* Creates the memory event, before anything can fault. */
uint32_t fixture_memory_event(struct fixture *f);
/*
 * Waits for the end of a reset, in which no queue can be created, for RESET_SECONDS at most; for
 * ktap_in_child.
 */
void fixture_wait_for_reset(void *unused);
/*
 * Creates a queue and destroys it, for ktap_in_child. That may fail with EIO or ENODEV: it races
 * with the loss of the GPU.
 */
void fixture_tries_queue(void *unused);
/* Only opens the GPU and acquires its VM, for ktap_in_child. */
void fixture_opens(void *unused);
/* Whether allocations fail (fail-nth.sh): a process works without its files in sysfs then. */
bool memory_fails(void);
/* fork() that ends the test on failure and does not duplicate buffered output. */
pid_t fork_child(void);
/* Reads the byte by which a child reports that it is ready. Ends the test without it. */
void wait_for_byte(int fd);
/* Same; waits until the child sleeps in the call that follows. */
void wait_for_sleep(int fd, pid_t child);
/* Pass an fd over a Unix socket. End the test on failure. */
void send_fd(int socket, int fd);
int receive_fd(int socket);
/* Returns a number from the render node (AMDGPU_INFO_*). */
uint64_t amdgpu_info(struct kfd *k, uint32_t query);
/* Waits up to 5 s until the number of bytes in use falls to `most`: memory may be freed late. */
void expect_usage(struct kfd *k, uint32_t query, uint64_t most);
/* Polls a word that the GPU writes, for `ms` at most; returns whether it has the value. */
bool becomes(const volatile uint32_t *word, uint32_t value, unsigned int ms);
/* Waits for one event; returns the wait result. */
uint32_t event_result(struct kfd *k, uint32_t id, uint32_t ms);
/* Waits for a HW_EXCEPTION event, expects that it reports a hang; returns `memory_lost`. */
uint32_t expect_hang_event(struct kfd *k, uint32_t id, uint32_t ms);
/*
 * Returns the timeout of the driver for all preemptions of a change, in seconds: that of the module
 * parameter queue_preemption_timeout_ms, or $PREEMPTION_TIMEOUT if that is set.
 */
double unmap_timeout(void);
/*
 * Expects that a call took as long as finding one queue stuck and its reset: the timeout of the
 * firmware for a queue is 45 % of that above, and the reset is quick unless it fails.
 */
void expect_stuck_call(double seconds);
/* Writes a sysfs or tracefs file; returns 0 or -errno. */
int write_file(const char *path, const char *text);
/* Returns dword `i` of a pattern. */
static inline uint32_t pattern_word(size_t i, uint32_t seed)
{
	return (uint32_t)i * 0x9e3779b9u + seed;
}

/* Fills memory with a pattern. */
void pattern(uint32_t *words, size_t bytes, uint32_t seed);
/* Expects that memory has a pattern; returns whether it has. */
bool has_pattern(const uint32_t *words, size_t bytes, uint32_t seed);
/* Returns a BO of 1 MiB in VRAM with a pattern, and expects later that it is unchanged. */
struct kfd_bo *fixture_keep(struct kfd *k);
void fixture_expect_kept(const struct kfd_bo *kept);
int fixture_kernel(struct fixture *f, const char *name, struct kfd_kernel *kernel);
/*
 * Returns the number in a file of this process in sysfs; `folder` is without the id of the GPU.
 * Without `file` it is a file itself.
 */
uint64_t process_number(struct kfd *k, const char *folder, const char *file);
/* Returns how long the queues of this process were evicted, in ms, from sysfs. */
uint64_t evicted_ms(struct kfd *k);
/* Returns the VRAM available to programs in bytes, from the render node. */
uint64_t vram_bytes(struct kfd *k);
/* Same; skips a test that fills VRAM by the BAR if it is large or not mapped there. */
uint64_t small_vram_bytes(struct kfd *k);
/* Same including the driver's reservations, which count as used. */
uint64_t all_vram_bytes(struct kfd *k);
/* Returns the pages in use of the GART of the first GPU. */
long gart_pages(void);
/* Whether the GPU of the tests is a gfx12; for those that do not open it. */
bool gpu_is_gfx12(void);
/* Skips the test on a GPU without MES. */
void need_mes(void);
/* Skips the test without this file or folder of kfd/ in debugfs. */
void need_debugfs(const char *file);
/*
 * Blocks the accesses to memory that `mode` (UFFDIO_REGISTER_MODE_*) selects, also those of the
 * kernel, until the userfaultfd returned is closed or resolves them. Skips the test without
 * userfaultfd.
 */
int fixture_hold(void *start, size_t size, uint64_t mode);
/* The same with flags of userfaultfd(): UFFD_USER_MODE_ONLY. */
int fixture_hold_for(void *start, size_t size, uint64_t mode, int flags);
/* Returns a page whose first access, also of the kernel, waits for end_hold(). */
char *held_page(int *userfaults);
/* Waits for that access. */
void wait_for_access(int userfaults);
void end_hold(int userfaults, char *page);

/* RUNTIME_ENABLE without a payload. */
int enable_runtime(struct kfd *k, uint32_t mode);

#endif
