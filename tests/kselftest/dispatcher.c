// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the ioctl dispatcher: valid numbers, argument sizes, and the errno of unsupported features.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

#define KFD_NR(dir, nr, size) _IOC(dir, AMDKFD_IOCTL_BASE, nr, size)

/* Rules of udev give it to a group. */
TEST(device_file_is_for_root)
{
	struct stat file;

	ASSERT(stat("/dev/kfd", &file) == 0);
	EXPECT_EQ(file.st_mode & 0777, 0600);
	EXPECT_EQ(file.st_uid, 0);
}

TEST(unknown_nr_is_enotty)
{
	char args[256] = { 0 };
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(kfd_ioctl(k.fd, KFD_NR(_IOC_READ | _IOC_WRITE, 0, 8), args), -ENOTTY);
	for (unsigned int nr = 0x29; nr < 0x100; nr++)
		EXPECT(kfd_ioctl(k.fd, KFD_NR(_IOC_READ | _IOC_WRITE, nr, 16), args) == -ENOTTY,
		       "nr %#x", nr);
	for (unsigned int nr = 0x29; nr < 0x100; nr++)
		EXPECT(kfd_ioctl(k.fd, KFD_NR(_IOC_NONE, nr, 0), NULL) == -ENOTTY, "nr %#x", nr);
}

/* The dispatcher uses only _IOC_NR, neither type nor direction. */
TEST(type_and_direction_are_ignored)
{
	struct kfd_ioctl_get_version_args args = { 0 };
	struct kfd k;

	fixture_open(&k);
	EXPECT_OK(kfd_ioctl(k.fd, _IOC(_IOC_READ, 'X', 0x01, sizeof(args)), &args));
	EXPECT_EQ(args.major_version, 1);
	memset(&args, 0, sizeof(args));
	EXPECT_OK(kfd_ioctl(k.fd, _IOC(_IOC_WRITE, AMDKFD_IOCTL_BASE, 0x01, sizeof(args)), &args));
	EXPECT_EQ(args.major_version, 1);
}

TEST(short_args_are_truncated)
{
	uint32_t words[4] = { 0xaaaaaaaa, 0xaaaaaaaa, 0xaaaaaaaa, 0xaaaaaaaa };
	struct kfd k;

	fixture_open(&k);
	EXPECT_OK(kfd_ioctl(k.fd, KFD_NR(_IOC_READ, 0x01, 4), words));
	EXPECT_EQ(words[0], 1);
	EXPECT_EQ(words[1], 0xaaaaaaaa);
	words[0] = 0xaaaaaaaa;
	EXPECT_OK(kfd_ioctl(k.fd, KFD_NR(_IOC_READ, 0x01, 0), words));
	EXPECT_EQ(words[0], 0xaaaaaaaa);
}

TEST(long_read_args_are_zero_filled)
{
	unsigned char bytes[512];
	struct kfd k;

	fixture_open(&k);
	memset(bytes, 0xaa, sizeof(bytes));
	EXPECT_OK(kfd_ioctl(k.fd, KFD_NR(_IOC_READ, 0x01, 64), bytes));
	EXPECT_EQ(bytes[0], 1);
	for (int i = 8; i < 64; i++)
		EXPECT(bytes[i] == 0, "byte %d is %#x", i, bytes[i]);
	EXPECT_EQ(bytes[64], 0xaa);
	/* Larger than the kernel's stack buffer. */
	memset(bytes, 0xaa, sizeof(bytes));
	EXPECT_OK(kfd_ioctl(k.fd, KFD_NR(_IOC_READ, 0x01, 400), bytes));
	EXPECT_EQ(bytes[399], 0);
	EXPECT_EQ(bytes[400], 0xaa);
}

TEST(long_write_args_are_unchanged)
{
	struct {
		struct kfd_ioctl_get_clock_counters_args args;
		uint64_t tail[40];
	} big;
	struct kfd k;

	fixture_open(&k);
	memset(&big, 0x5a, sizeof(big));
	big.args.gpu_id = k.node.gpu_id;
	EXPECT_OK(kfd_ioctl(k.fd, KFD_NR(_IOC_READ | _IOC_WRITE, 0x05, sizeof(big)), &big));
	EXPECT_EQ(big.args.system_clock_freq, 1000000000);
	for (int i = 0; i < 40; i++)
		EXPECT_EQ(big.tail[i], 0x5a5a5a5a5a5a5a5aull);
}

/* Missing members read as zero: CREATE_EVENT without auto_reset and node_id. */
TEST(short_write_args_are_zero_extended)
{
	struct kfd_ioctl_create_event_args args = { .event_type = KFD_IOC_EVENT_MEMORY,
						    .auto_reset = 1,
						    .event_id = 77 };
	struct kfd_event_data data = { 0 };
	uint32_t result;
	struct kfd k;

	fixture_open(&k);
	EXPECT_OK(kfd_ioctl(k.fd,
			    KFD_NR(_IOC_READ | _IOC_WRITE, 0x08,
				   offsetof(struct kfd_ioctl_create_event_args, auto_reset)),
			    &args));
	EXPECT_EQ(args.event_id, 77);
	EXPECT(args.event_trigger_data >= KFD_SIGNAL_EVENT_LIMIT, "%#x", args.event_trigger_data);
	data.event_id = args.event_trigger_data;
	EXPECT_OK(kfd_event_wait(&k, &data, 1, false, 0, &result));
	EXPECT_EQ(result, KFD_IOC_WAIT_RESULT_TIMEOUT);
}

TEST(bad_args_pointer_is_efault)
{
	struct kfd k;

	fixture_open(&k);
	for (unsigned int nr = 0x01; nr <= 0x28; nr++) {
		int ret;

		/* It has no argument. */
		if (nr == _IOC_NR(AMDKFD_IOC_CREATE_PROCESS))
			continue;
		ret = kfd_ioctl(k.fd, KFD_NR(_IOC_READ | _IOC_WRITE, nr, 96),
				(void *)KERNEL_ADDRESS);
		EXPECT(ret == -EFAULT, "nr %#x returns %s", nr, ktap_errno_name(ret));
	}
}

/* Arguments can be read but not written: the ioctl takes effect, the copy back fails. */
TEST(read_only_args_are_efault)
{
	struct kfd_ioctl_get_version_args *args =
		mmap(NULL, KFD_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_GET_VERSION, args), -EFAULT);
}

TEST(deprecated_dbg_ioctls_are_eperm)
{
	char args[256] = { 0 };
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_DBG_REGISTER_DEPRECATED, args), -EPERM);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_DBG_UNREGISTER_DEPRECATED, args), -EPERM);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_DBG_ADDRESS_WATCH_DEPRECATED, args), -EPERM);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_DBG_WAVE_CONTROL_DEPRECATED, args), -EPERM);
}

TEST(svm_attributes_beyond_the_argument_are_einval)
{
	struct {
		struct kfd_ioctl_svm_args args;
		struct kfd_ioctl_svm_attribute attr;
	} svm = { .args = { .start_addr = 1ull << 32,
			    .size = 4096,
			    .op = KFD_IOCTL_SVM_OP_SET_ATTR } };
	struct kfd k;

	fixture_open(&k);
	svm.args.nattr = 2;
	EXPECT_RET(kfd_ioctl(k.fd, KFD_NR(_IOC_READ | _IOC_WRITE, 0x20, sizeof(svm)), &svm),
		   -EINVAL);
	svm.args.nattr = ~0u;
	EXPECT_RET(kfd_ioctl(k.fd, KFD_NR(_IOC_READ | _IOC_WRITE, 0x20, sizeof(svm)), &svm),
		   -EINVAL);
}

TEST(queue_ioctls_check_arguments_first)
{
	struct kfd_ioctl_set_cu_mask_args mask = { .queue_id = 999, .num_cu_mask = 31 };
	struct kfd_ioctl_get_queue_wave_state_args waves = { .queue_id = 999 };
	struct kfd_ioctl_alloc_queue_gws_args gws = { .queue_id = 999, .num_gws = 1 };
	uint32_t bits[32] = { ~0u };
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_SET_CU_MASK, &mask), -EINVAL);
	mask.num_cu_mask = 0;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_SET_CU_MASK, &mask), -EINVAL);
	mask.num_cu_mask = 64;
	mask.cu_mask_ptr = KERNEL_ADDRESS;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_SET_CU_MASK, &mask), -EFAULT);
	mask.cu_mask_ptr = kfd_va(bits);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_SET_CU_MASK, &mask), -EFAULT);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &waves), -EFAULT);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_QUEUE_GWS, &gws), -EINVAL);
}

TEST(unknown_gpu_and_handle_is_einval)
{
	struct kfd_ioctl_get_tile_config_args tile = { .gpu_id = NO_SUCH_GPU };
	struct kfd_ioctl_import_dmabuf_args import = { .gpu_id = NO_SUCH_GPU };
	struct kfd_ioctl_export_dmabuf_args export = { .handle = (uint64_t)NO_SUCH_GPU << 32 };
	struct kfd_ioctl_smi_events_args smi = { .gpuid = NO_SUCH_GPU };
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_GET_TILE_CONFIG, &tile), -EINVAL);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_IMPORT_DMABUF, &import), -EINVAL);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_EXPORT_DMABUF, &export), -EINVAL);
	export.handle = (uint64_t)k.node.gpu_id << 32 | 0x7777;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_EXPORT_DMABUF, &export), -EINVAL);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_SMI_EVENTS, &smi), -EINVAL);
}

TEST(dbg_trap_checks_target_process)
{
	struct kfd_ioctl_dbg_trap_args args = { .pid = 0x7ffffff0, .op = KFD_IOC_DBG_TRAP_DISABLE };
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_DBG_TRAP, &args), -ESRCH);
	/* Debugging is not enabled: every other operation fails. */
	args.pid = (uint32_t)getpid();
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_DBG_TRAP, &args), -EINVAL);
}

TEST(criu_checks_operation)
{
	struct kfd_ioctl_criu_args args = { .op = 99 };
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_CRIU_OP, &args), -EINVAL);
	if (geteuid() == 0 && setresuid(65534, 65534, 65534) == 0)
		EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_CRIU_OP, &args), -EACCES);
}
