// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests errors of the PCIe link while the GPU is in use, which the module aer_inject injects into
 * the port above the card. A fatal error resets the link: queues and VRAM contents are lost, as at
 * a reset of the card. An error that is not fatal loses nothing.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/pci_regs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cs.h"
#include "device.h"
#include "knobs.h"

#define MODULE "/lib/modules/aer_inject.ko"
#define INJECT "/dev/aer_inject"
#define SECONDS 60
/* The kernel waits a minute for a device after a reset of its link. */
#define GONE_SECONDS 150

/* struct aer_error_inj of the kernel */
struct error {
	uint8_t bus, device, function;
	uint32_t uncorrectable, correctable;
	uint32_t header[4];
	uint32_t domain;
};

static void load_module(void)
{
	int file;

	if (!access(INJECT, F_OK))
		return;
	file = open(MODULE, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		SKIP("no " MODULE);
	ASSERT(!syscall(SYS_finit_module, file, "", 0), MODULE ": %s", strerror(errno));
	close(file);
	ASSERT(!access(INJECT, W_OK));
}

/* Writes the path of the port of the GPU in sysfs, of PATH_MAX bytes. */
static void find_port(char *port)
{
	char path[128], real[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", device_name());
	ASSERT(realpath(path, real), "%s: %s", path, strerror(errno));
	strcpy(port, dirname(real));
}

/* Injects an error into the port of the GPU, which also handles it. Returns 0 or -errno. */
static int inject(uint32_t uncorrectable)
{
	unsigned int domain, bus, device, function;
	struct error error = { .uncorrectable = uncorrectable };
	char port[PATH_MAX];
	int file, ret = 0;

	find_port(port);
	ASSERT_EQ(sscanf(basename(port), "%x:%x:%x.%x", &domain, &bus, &device, &function), 4);
	error.domain = domain;
	error.bus = (uint8_t)bus;
	error.device = (uint8_t)device;
	error.function = (uint8_t)function;
	file = open(INJECT, O_WRONLY | O_CLOEXEC);
	ASSERT(file >= 0, INJECT ": %s", strerror(errno));
	if (write(file, &error, sizeof(error)) != sizeof(error))
		ret = -errno;
	close(file);
	return ret;
}

/* Resets the link by the port of the GPU. Neither the driver nor the PCI core knows. */
static void reset_link(void)
{
	char path[PATH_MAX + 8];
	uint16_t control;
	int file;

	find_port(path);
	strcat(path, "/config");
	file = open(path, O_RDWR | O_CLOEXEC);
	ASSERT(file >= 0, "%s: %s", path, strerror(errno));
	ASSERT_EQ(pread(file, &control, 2, PCI_BRIDGE_CONTROL), 2);
	control |= PCI_BRIDGE_CTL_BUS_RESET;
	ASSERT_EQ(pwrite(file, &control, 2, PCI_BRIDGE_CONTROL), 2);
	usleep(2000);
	control &= (uint16_t)~PCI_BRIDGE_CTL_BUS_RESET;
	ASSERT_EQ(pwrite(file, &control, 2, PCI_BRIDGE_CONTROL), 2);
	close(file);
	sleep(1);
}

/* Injects an error, and waits until the kernel has handled it. */
static void recover_from(uint32_t uncorrectable)
{
	int log = kmsg_open();

	ASSERT_OK(inject(uncorrectable));
	EXPECT(kmsg_wait_for(log, "AER: device recovery successful", SECONDS));
	close(log);
}

/* Returns whether the slot of the GPU has a second function, whose file in sysfs is returned. */
static bool find_second_function(char *path, size_t size, const char *file)
{
	int length;

	device_find();
	length = (int)strlen(device_name()) - 1;
	snprintf(path, size, "/sys/bus/pci/devices/%.*s1/%s", length, device_name(), file);
	return !access(path, F_OK);
}

/* No function without a handler of errors is below the port. */
static void need_errors(void)
{
	char path[128];

	if (find_second_function(path, sizeof(path), "remove"))
		ASSERT_OK(write_file(path, "1"));
	load_module();
}

/* Such a function is below the port: the kernel recovers none there. */
static void need_second_function(void)
{
	char path[128];

	device_find();
	ASSERT_OK(device_rescan());
	if (!find_second_function(path, sizeof(path), "vendor"))
		SKIP("the slot of the GPU has one function");
	load_module();
}

TEST_TIMEOUT(idle, 200)
{
	need_errors();
	for (int i = 0; i < 3; i++) {
		recover_from(PCI_ERR_UNC_DLP);
		ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	}
	recover_from(PCI_ERR_UNC_DLP);
	recover_from(PCI_ERR_UNC_DLP);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* The queue is lost, with an event; a new process works. */
TEST_TIMEOUT(fatal_error_is_a_reset, 200)
{
	uint32_t event = 0;
	struct fixture f;
	int uevents;

	need_errors();
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	uevents = uevents_open();
	recover_from(PCI_ERR_UNC_DLP);
	EXPECT(uevents_have(uevents, "WEDGED=none", WAIT_MS));
	EXPECT_EQ(expect_hang_event(&f.k, event, WAIT_MS), 1);
	EXPECT_RET(fixture_update_queue(&f.q, 0), -EACCES);
	EXPECT_OK(kfd_queue_destroy(&f.q));
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* A process with a queue, an event of hardware exceptions, and memory in VRAM. */
struct user {
	struct fixture f;
	struct kfd_bo *vram;
	uint32_t event;
};

static void start(struct user *u)
{
	fixture_launch(&u->f);
	ASSERT_OK(kfd_event_create(&u->f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &u->event));
	ASSERT_OK(kfd_bo_create(&u->f.k, 1 << 20, KFD_FLAGS_VRAM, &u->vram));
	ASSERT_OK(fixture_fill(&u->f, &u->f.q, u->vram->va, 64, 5));
}

/* Expects that the queue works on, and that its memory is intact. */
static void expect_nothing_lost(struct user *u)
{
	ASSERT(fixture_works(&u->f));
	EXPECT_EQ(((volatile uint32_t *)u->vram->va)[63], 5);
	EXPECT_EQ(event_result(&u->f.k, u->event, 100), KFD_IOC_WAIT_RESULT_TIMEOUT);
	EXPECT_OK(fixture_update_queue(&u->f.q, 0));
	EXPECT_OK(kfd_queue_destroy(&u->f.q));
}

TEST_TIMEOUT(other_error_loses_nothing, 200)
{
	struct user u;

	need_errors();
	start(&u);
	recover_from(PCI_ERR_UNC_COMP_TIME);
	expect_nothing_lost(&u);
}

/*
 * The kernel declares a permanent failure if one of the functions below the port has no handler,
 * although the link works: the queue works on.
 */
TEST_TIMEOUT(other_error_beside_unhandled_function, 200)
{
	struct user u;
	int log;

	need_second_function();
	start(&u);
	log = kmsg_open();
	ASSERT_OK(inject(PCI_ERR_UNC_COMP_TIME));
	ASSERT(kmsg_wait_for(log, "AER: device recovery failed", SECONDS));
	expect_nothing_lost(&u);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* The kernel resets the link without notice: the card is lost until it is removed. */
TEST_TIMEOUT(fatal_error_beside_unhandled_function, 200)
{
	uint32_t event = 0;
	struct fixture f;
	int uevents;

	need_second_function();
	fixture_launch(&f);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	uevents = uevents_open();
	ASSERT_OK(inject(PCI_ERR_UNC_DLP));
	EXPECT_EQ(expect_hang_event(&f.k, event, WAIT_MS), 1);
	EXPECT(uevents_have(uevents, "WEDGED=rebind,bus-reset", WAIT_MS));
	EXPECT_RET(fixture_update_queue(&f.q, 0), -EIO);
	ASSERT_OK(device_remove());
	ASSERT_OK(device_rescan());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/*
 * A job that does not end by itself is cancelled, and so is one that waits for it. Their contexts
 * have failed, a new one works.
 */
TEST_TIMEOUT(pending_jobs_are_cancelled, 200)
{
	uint64_t running, queued;
	uint32_t first, file;
	struct cs cs;

	need_errors();
	cs_open(&cs);
	first = cs.ctx;
	ASSERT_OK(cs_run(&cs, 0, cs_poll(&cs, cs.data.va, 1), &running));
	ASSERT_OK(cs_to_handle(&cs, running, AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, &file));
	ASSERT_OK(cs_run_after(&cs, running, cs_write(&cs, cs.data.va, 2), &queued));
	usleep(100000);
	recover_from(PCI_ERR_UNC_DLP);
	cs_expect_cancelled(&cs, queued);
	cs.ctx = first;
	cs_expect_cancelled(&cs, running);
	EXPECT_EQ(sync_file_status((int)file), -ECANCELED);
	cs_expect_lost(&cs);
}

static void *inject_errors(void *data)
{
	(void)data;
	for (int i = 0; i < 4; i++) {
		recover_from(i % 2 ? PCI_ERR_UNC_COMP_TIME : PCI_ERR_UNC_DLP);
		usleep(20000);
	}
	return NULL;
}

/* Errors beside processes, and beside resets of the function. */
TEST_TIMEOUT(errors_at_any_time, 300)
{
	pthread_t thread;

	need_errors();
	ASSERT(!pthread_create(&thread, NULL, inject_errors, NULL));
	for (int i = 0; i < 8; i++)
		EXPECT_OK(ktap_in_child(fixture_tries_queue, NULL));
	pthread_join(thread, NULL);
	ASSERT(!pthread_create(&thread, NULL, inject_errors, NULL));
	for (int i = 0; i < 4; i++)
		device_reset();
	pthread_join(thread, NULL);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/*
 * As when the PCI core resets the function between the reset of the link by AER and the callback of
 * the driver: before the reset it saves a configuration without addresses and restores that.
 */
TEST_TIMEOUT(function_reset_after_link_reset, 200)
{
	uint32_t event = 0;
	struct fixture f;

	need_errors();
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	reset_link();
	device_reset();
	EXPECT_EQ(expect_hang_event(&f.k, event, WAIT_MS), 1);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* The card does not answer after the reset of its link: it is lost until it is removed. */
TEST_TIMEOUT(card_does_not_come_back, 400)
{
	uint32_t event = 0;
	struct fixture f;
	int log, uevents;

	knobs_open();
	need_errors();
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	log = kmsg_open();
	uevents = uevents_open();
	knob_set("pci.gone", 1);
	ASSERT_OK(inject(PCI_ERR_UNC_DLP));
	EXPECT_EQ(expect_hang_event(&f.k, event, WAIT_MS), 1);
	EXPECT(kmsg_wait_for(log, "AER: device recovery failed", GONE_SECONDS));
	EXPECT(uevents_have(uevents, "WEDGED=rebind,bus-reset", WAIT_MS));
	EXPECT_RET(fixture_update_queue(&f.q, 0), -EIO);
	ASSERT_OK(device_remove());
	knob_set("pci.gone", 0);
	ASSERT_OK(device_rescan());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}
