// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * System calls on the driver's files: with failing allocations (fail-nth.c), random changes
 * (mutate.c), and recorded coverage (cover.c) on request.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "call.h"
#include "cover.h"
#include "kfd.h"

int run_ioctl(struct call *call)
{
	int ret = ioctl(call->fd, call->request, call->args);

	return ret < 0 ? -errno : ret;
}

static int run_open(struct call *call)
{
	int fd = open(call->path, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int run_mmap(struct call *call)
{
	int flags = MAP_SHARED | (call->at ? MAP_FIXED : 0);
	void *p = mmap(call->at, call->size, PROT_READ | PROT_WRITE, flags, call->fd, call->offset);

	if (p == MAP_FAILED)
		return -errno;
	call->at = p;
	return 0;
}

bool copy_readable(void *to, const void *from, size_t size)
{
	struct iovec local = { to, size }, remote = { (void *)from, size };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

static int run(struct call *call)
{
	unsigned char saved[1u << _IOC_SIZEBITS];

	if (is_failing() && call->run == run_open)
		return open_with_failures(call);
	if (is_failing()) {
		if (call->run == run_ioctl && copy_readable(saved, call->args, _IOC_SIZE(call->request)))
			call->saved_args = saved;
		return run_with_failures(call);
	}
	if (is_mutating() && call->run == run_ioctl)
		return mutate_ioctl(call);
	if (is_mutating() && call->run == run_mmap)
		return mutate_mmap(call);
	return call->run(call);
}

static int run_covered(struct call *call)
{
	struct trace *trace = cover_own();
	int ret = run(call);

	cover_collect_own(trace);
	return ret;
}

int kfd_ioctl(int fd, unsigned long request, void *args)
{
	struct call call = { .run = run_ioctl, .fd = fd, .request = request, .args = args };

	return run_covered(&call);
}

int kfd_open_file(const char *path)
{
	struct call call = { .run = run_open, .path = path };

	return run_covered(&call);
}

int kfd_mmap(void **at, size_t size, int fd, uint64_t offset)
{
	struct call call = {
		.run = run_mmap, .fd = fd, .at = *at, .size = size, .offset = (off_t)offset
	};
	int ret = run_covered(&call);

	*at = call.at;
	return ret;
}
