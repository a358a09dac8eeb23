// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Preloaded into QEMU, so that the root port above the GPU completes atomic operations.
 *
 * QEMU sets the completer capabilities of a pcie-root-port to those that VFIO_DEVICE_GET_INFO
 * reports for the device below it (vfio_pci_enable_rp_atomics()), and has no option for them. Its
 * vfio-user client has no file descriptor for that ioctl, which then fails with EBADF; this answers
 * it.
 */
#define _GNU_SOURCE
#include <linux/vfio.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

struct answer {
	struct vfio_device_info info;
	struct vfio_device_info_cap_pci_atomic_comp atomics;
};

int ioctl(int fd, unsigned long request, ...);

int ioctl(int fd, unsigned long request, ...)
{
	struct answer *answer;
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (fd != -1 || request != VFIO_DEVICE_GET_INFO)
		return syscall(SYS_ioctl, fd, request, arg);
	answer = arg;
	/* QEMU repeats the call with as many bytes as the first one asks for. */
	if (answer->info.argsz < sizeof(*answer)) {
		answer->info.argsz = sizeof(*answer);
		return 0;
	}
	*answer = (struct answer){
		.info = { .argsz = sizeof(*answer),
			  .flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_CAPS,
			  .cap_offset = sizeof(answer->info) },
		.atomics = { .header = { .id = VFIO_DEVICE_INFO_CAP_PCI_ATOMIC_COMP, .version = 1 },
			     .flags = VFIO_PCI_ATOMIC_COMP32 | VFIO_PCI_ATOMIC_COMP64 },
	};
	return 0;
}
