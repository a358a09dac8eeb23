// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests the render node, as far as the compute runtime uses it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "fixture.h"

#define GB_ADDR_CONFIG 0x263e
#define MI325X 0x74a5

static int call(int fd, unsigned long request, void *args)
{
	return kfd_ioctl(fd, request, args);
}

static int render(struct kfd_node *node)
{
	struct kfd k = { 0 };

	ASSERT_OK(kfd_topology_find_gpu(&k.node));
	ASSERT_OK(kfd_open_render(&k));
	if (node)
		*node = k.node;
	return k.drm;
}

static int info(int fd, uint32_t query, void *to, uint32_t size)
{
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(to),
					   .return_size = size,
					   .query = query };

	return call(fd, DRM_IOCTL_AMDGPU_INFO, &request);
}

TEST(sysfs_device_of_render_node)
{
	struct kfd_node node;
	struct stat s;
	char path[128];
	int fd = render(&node);

	ASSERT(fstat(fd, &s) == 0);
	EXPECT(S_ISCHR(s.st_mode));
	EXPECT_EQ(major(s.st_rdev), 226);
	EXPECT_EQ(minor(s.st_rdev), node.drm_render_minor);
	snprintf(path, sizeof(path), "/sys/dev/char/226:%u/device/drm", node.drm_render_minor);
	EXPECT(access(path, F_OK) == 0, "%s", path);
}

TEST(version)
{
	char name[16] = { 0 }, date[16] = { 0 }, text[64] = { 0 };
	struct drm_version v = { 0 };
	int fd = render(NULL);

	/* Two calls: first for the lengths, then for the strings. */
	ASSERT_OK(call(fd, DRM_IOCTL_VERSION, &v));
	EXPECT_EQ(v.version_major, 3);
	EXPECT_EQ(v.version_minor, 64);
	EXPECT_EQ(v.name_len, 6);
	v.name = name;
	v.name_len = sizeof(name);
	v.date = date;
	v.date_len = sizeof(date);
	v.desc = text;
	v.desc_len = sizeof(text);
	ASSERT_OK(call(fd, DRM_IOCTL_VERSION, &v));
	EXPECT(!strcmp(name, "amdgpu"), "%s", name);
}

TEST(accel_working)
{
	uint32_t works = 0;
	int fd = render(NULL);

	ASSERT_OK(info(fd, AMDGPU_INFO_ACCEL_WORKING, &works, sizeof(works)));
	EXPECT_EQ(works, 1);
}

/* Returns the active CUs of the card: those of all its nodes. */
static uint32_t cus_of_card(const struct kfd_node *node)
{
	struct kfd_node other;
	uint32_t cus = 0;

	for (int i = 0; !kfd_topology_node(i, &other); i++) {
		bool same = other.domain == node->domain &&
			    other.location_id >> 3 == node->location_id >> 3;

		if (other.gpu_id && same)
			cus += other.simd_count / other.simd_per_cu;
	}
	return cus;
}

TEST(device_info_matches_topology)
{
	struct drm_amdgpu_info_device d;
	struct kfd_node node;
	int fd = render(&node);

	memset(&d, 0, sizeof(d));
	ASSERT_OK(info(fd, AMDGPU_INFO_DEV_INFO, &d, sizeof(d)));
	EXPECT_EQ(d.device_id, node.device_id);
	EXPECT_EQ(d.family, is_gfx12(&node) ? AMDGPU_FAMILY_GC_12_0_0 : AMDGPU_FAMILY_AI);
	EXPECT(d.gpu_counter_freq > 0);
	EXPECT_EQ(d.cu_active_number, cus_of_card(&node));
	EXPECT(d.num_shader_engines > 0);
	EXPECT(d.virtual_address_offset > 0);
	EXPECT(d.virtual_address_max > d.virtual_address_offset);
	EXPECT(d.virtual_address_max <= 1ull << 47);
	EXPECT_EQ(d.virtual_address_alignment, 4096);
	EXPECT(d.high_va_offset >= 0xffff800000000000ull);
	EXPECT(d.high_va_max > d.high_va_offset);
	EXPECT_EQ(d.wave_front_size, node.wave_front_size);
	if (is_gfx12(&node))
		EXPECT_EQ(d.vram_type, AMDGPU_VRAM_TYPE_GDDR6);
	else
		EXPECT_EQ(d.vram_type, node.device_id == MI325X ? AMDGPU_VRAM_TYPE_HBM3E :
								   AMDGPU_VRAM_TYPE_HBM);
	/* A discrete GPU, not an APU. */
	EXPECT_EQ(d.ids_flags & AMDGPU_IDS_FLAGS_FUSION, 0);
}

TEST(info_is_truncated_to_return_size)
{
	struct {
		uint32_t words[8];
	} a;
	int fd = render(NULL);

	memset(&a, 0xee, sizeof(a));
	ASSERT_OK(info(fd, AMDGPU_INFO_DEV_INFO, &a, 8));
	EXPECT(a.words[0] != 0xeeeeeeee);
	EXPECT_EQ(a.words[2], 0xeeeeeeee);
	/* Zero size, or no pointer. */
	EXPECT_RET(info(fd, AMDGPU_INFO_ACCEL_WORKING, &a, 0), -EINVAL);
	EXPECT_RET(info(fd, AMDGPU_INFO_ACCEL_WORKING, NULL, 4), -EINVAL);
	EXPECT_RET(info(fd, AMDGPU_INFO_ACCEL_WORKING, (void *)KERNEL_ADDRESS, 4), -EFAULT);
	EXPECT_RET(info(fd, 0x7777, &a, 4), -EINVAL);
}

static int read_register(int fd, uint32_t offset, uint32_t count, uint32_t *to)
{
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(to), .return_size = count * 4,
					   .query = AMDGPU_INFO_READ_MMR_REG };

	request.read_mmr_reg.dword_offset = offset;
	request.read_mmr_reg.count = count;
	request.read_mmr_reg.instance = 0xffffffff;
	return call(fd, DRM_IOCTL_AMDGPU_INFO, &request);
}

TEST(read_mmr_reg)
{
	uint32_t word = 0, again = 1, many[200];
	int fd = render(NULL);

	ASSERT_OK(read_register(fd, GB_ADDR_CONFIG, 1, &word));
	ASSERT_OK(read_register(fd, GB_ADDR_CONFIG, 1, &again));
	EXPECT_EQ(word, again);
	EXPECT(word != 0 && word != 0xffffffff, "%#x", word);
	/* Most registers are not readable from user space, nor too many at a time. */
	EXPECT_RET(read_register(fd, 0x7fffffff, 1, &word), -EFAULT);
	EXPECT_RET(read_register(fd, 0xffffffff, 1, &word), -EFAULT);
	EXPECT_RET(read_register(fd, GB_ADDR_CONFIG, 129, many), -EINVAL);
}

TEST(hw_ip_info)
{
	struct drm_amdgpu_info request = { 0 };
	uint32_t count = 99;
	struct kfd_node node;
	int fd = render(&node);

	request.return_pointer = kfd_va(&count);
	request.return_size = sizeof(count);
	request.query = AMDGPU_INFO_HW_IP_COUNT;
	request.query_hw_ip.type = AMDGPU_HW_IP_COMPUTE;
	EXPECT_OK(call(fd, DRM_IOCTL_AMDGPU_INFO, &request));
	EXPECT(count <= node.num_xcc, "%u", count);
	request.query_hw_ip.type = 77;
	EXPECT_RET(call(fd, DRM_IOCTL_AMDGPU_INFO, &request), -EINVAL);
}

/* Queries about video engines, which the GPU does not have. */
TEST(info_about_video_engines)
{
	struct drm_amdgpu_info request = { .query = AMDGPU_INFO_NUM_HANDLES };
	struct drm_amdgpu_info_vce_clock_table clocks, none = { 0 };
	struct drm_amdgpu_info_num_handles handles;
	int fd = render(NULL);

	memset(&clocks, 0x55, sizeof(clocks));
	/* amdgpu needs power management, which it does not have on the model. */
	if (ktap_is_rkfd()) {
		EXPECT_OK(info(fd, AMDGPU_INFO_VCE_CLOCK_TABLE, &clocks, sizeof(clocks)));
		EXPECT(!memcmp(&clocks, &none, sizeof(clocks)));
	}
	request.return_pointer = kfd_va(&handles);
	request.return_size = sizeof(handles);
	request.query_hw_ip.type = AMDGPU_HW_IP_UVD;
	EXPECT_RET(call(fd, DRM_IOCTL_AMDGPU_INFO, &request), -ENODATA);
	request.query_hw_ip.type = AMDGPU_HW_IP_VCE;
	EXPECT_RET(call(fd, DRM_IOCTL_AMDGPU_INFO, &request), -EINVAL);
}

static int create(int fd, uint64_t size, uint64_t domain, uint32_t *handle)
{
	union drm_amdgpu_gem_create args = { 0 };
	int ret;

	args.in.bo_size = size;
	args.in.alignment = 4096;
	args.in.domains = domain;
	args.in.domain_flags = AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
	ret = call(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &args);
	*handle = args.out.handle;
	return ret;
}

static int offset_of(int fd, uint32_t handle, uint64_t *offset)
{
	union drm_amdgpu_gem_mmap args = { 0 };
	int ret;

	args.in.handle = handle;
	ret = call(fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &args);
	*offset = args.out.addr_ptr;
	return ret;
}

static int destroy(int fd, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	return call(fd, DRM_IOCTL_GEM_CLOSE, &args);
}

/* Returns the value of a sensor, or a negative errno. */
static int64_t sensor(int fd, uint32_t type)
{
	uint32_t value = 0;
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&value),
					   .return_size = sizeof(value),
					   .query = AMDGPU_INFO_SENSOR };
	int ret;

	request.sensor_info.type = type;
	ret = call(fd, DRM_IOCTL_AMDGPU_INFO, &request);
	return ret < 0 ? ret : (int64_t)value;
}

/* Sensors of the SMU: clocks within their limits, power and load of an idle and of a busy GPU. */
TEST(sensors)
{
	struct drm_amdgpu_info_device device;
	struct kfd_node node;
	int fd = render(&node);
	volatile uint32_t *words;
	struct fixture f;

	ASSERT_OK(info(fd, AMDGPU_INFO_DEV_INFO, &device, sizeof(device)));
	/* Its SMU has other sensors. */
	if (is_gfx12(&node)) {
		int64_t mhz = sensor(fd, AMDGPU_INFO_SENSOR_GFX_SCLK);

		if (ktap_is_rkfd())
			EXPECT_EQ(mhz, -ENOENT);
		else
			EXPECT(mhz >= (int64_t)device.min_engine_clock / 1000 &&
				       mhz <= (int64_t)device.max_engine_clock / 1000,
			       "%lld", (long long)mhz);
		return;
	}
	EXPECT_EQ(sensor(fd, AMDGPU_INFO_SENSOR_STABLE_PSTATE_GFX_SCLK),
		  device.min_engine_clock / 1000);
	EXPECT_EQ(sensor(fd, AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_SCLK),
		  device.max_engine_clock / 1000);
	EXPECT_EQ(sensor(fd, AMDGPU_INFO_SENSOR_STABLE_PSTATE_GFX_MCLK),
		  device.min_memory_clock / 1000);
	EXPECT_EQ(sensor(fd, AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_MCLK),
		  device.max_memory_clock / 1000);
	for (uint32_t type = AMDGPU_INFO_SENSOR_GFX_SCLK; type <= AMDGPU_INFO_SENSOR_GFX_MCLK;
	     type++) {
		bool engine = type == AMDGPU_INFO_SENSOR_GFX_SCLK;
		int64_t mhz = sensor(fd, type);

		EXPECT(mhz >= (int64_t)(engine ? device.min_engine_clock : device.min_memory_clock) / 1000 &&
			       mhz <= (int64_t)(engine ? device.max_engine_clock : device.max_memory_clock) / 1000,
		       "%lld MHz", (long long)mhz);
	}
	EXPECT_EQ(sensor(fd, AMDGPU_INFO_SENSOR_GPU_TEMP), -EINVAL);
	EXPECT_EQ(sensor(fd, AMDGPU_INFO_SENSOR_VDDNB), -EINVAL);
	EXPECT_EQ(sensor(fd, 0), -EINVAL);
	EXPECT_EQ(sensor(fd, AMDGPU_INFO_SENSOR_GPU_INPUT_POWER + 1), -EINVAL);

	fixture_launch(&f);
	words = f.data->va;
	EXPECT_EQ(sensor(fd, AMDGPU_INFO_SENSOR_GPU_LOAD), 0);
	EXPECT(sensor(fd, AMDGPU_INFO_SENSOR_GPU_INPUT_POWER) > 0);
	EXPECT_EQ(sensor(fd, AMDGPU_INFO_SENSOR_GPU_AVG_POWER),
		  sensor(fd, AMDGPU_INFO_SENSOR_GPU_INPUT_POWER));
	fixture_endless(&f, 1);
	/* The C driver reads metrics again after some milliseconds only. */
	for (int i = 0; i < 100 && sensor(fd, AMDGPU_INFO_SENSOR_GPU_LOAD) == 0; i++)
		usleep(10000);
	EXPECT(sensor(fd, AMDGPU_INFO_SENSOR_GPU_LOAD) > 0);
	words[1] = 1;
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
}

/* Without a domain a buffer is in system memory. */
TEST(bo_without_a_domain)
{
	int fd = render(NULL);
	uint64_t offset;
	uint32_t handle;
	void *p;

	ASSERT_OK(create(fd, 65536, 0, &handle));
	ASSERT_OK(offset_of(fd, handle, &offset));
	p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	ASSERT(p != MAP_FAILED, "%s", strerror(errno));
	EXPECT_EQ(*(uint64_t *)p, 0);
	ASSERT(!munmap(p, 65536));
	EXPECT_OK(destroy(fd, handle));
}

TEST(create_and_map_bo)
{
	static const uint64_t domains[] = { AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_DOMAIN_VRAM };
	int fd = render(NULL);

	for (int i = 0; i < 2; i++) {
		uint32_t handle;
		uint64_t offset;
		volatile uint32_t *words;

		ASSERT_OK(create(fd, 65536, domains[i], &handle));
		EXPECT(handle != 0);
		ASSERT_OK(offset_of(fd, handle, &offset));
		words = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
		ASSERT(words != MAP_FAILED, "domain %#llx: %s", (unsigned long long)domains[i],
		       strerror(errno));
		EXPECT(words[0] == 0 && words[16383] == 0);
		words[16383] = 0x600d;
		EXPECT_OK(destroy(fd, handle));
		/* The mapping keeps the BO. */
		EXPECT_EQ(words[16383], 0x600d);
		munmap((void *)words, 65536);
	}
}

static int va_op_flags(int fd, uint32_t handle, uint32_t operation, uint32_t flags, uint64_t va,
		       uint64_t offset, uint64_t size)
{
	struct drm_amdgpu_gem_va args = {
		.handle = handle,
		.operation = operation,
		.flags = flags,
		.va_address = va,
		.offset_in_bo = offset,
		.map_size = size,
	};

	return call(fd, DRM_IOCTL_AMDGPU_GEM_VA, &args);
}

static int va_op(int fd, uint32_t handle, uint32_t operation, uint64_t va, uint64_t offset,
		 uint64_t size)
{
	return va_op_flags(fd, handle, operation,
			   AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE |
				   AMDGPU_VM_PAGE_EXECUTABLE,
			   va, offset, size);
}

TEST(gem_va_flags)
{
	static const uint64_t va = 0x7000000000ull;
	const uint32_t rw = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE;
	int fd = render(NULL);
	uint32_t bo;

	ASSERT_OK(create(fd, 65536, AMDGPU_GEM_DOMAIN_VRAM, &bo));
	EXPECT_OK(va_op_flags(fd, bo, AMDGPU_VA_OP_MAP, rw | AMDGPU_VM_PAGE_NOALLOC, va, 0, 65536));
	EXPECT_OK(va_op(fd, bo, AMDGPU_VA_OP_UNMAP, va, 0, 65536));
	EXPECT_RET(va_op_flags(fd, bo, AMDGPU_VA_OP_MAP, rw | 1u << 31, va, 0, 65536), -EINVAL);
	EXPECT_RET(va_op_flags(fd, bo, AMDGPU_VA_OP_MAP, rw | AMDGPU_VM_PAGE_PRT, va, 0, 65536),
		   -EINVAL);
	/* Only the C driver has sparse mappings. */
	EXPECT_RET(va_op_flags(fd, 0, AMDGPU_VA_OP_MAP, AMDGPU_VM_PAGE_PRT, va, 0, 65536),
		   ktap_is_rkfd() ? -EINVAL : 0);
}

TEST(gem_va)
{
	static const uint64_t va = 0x7000000000ull;
	uint32_t a, b;
	int fd = render(NULL);

	ASSERT_OK(create(fd, 65536, AMDGPU_GEM_DOMAIN_VRAM, &a));
	ASSERT_OK(create(fd, 65536, AMDGPU_GEM_DOMAIN_GTT, &b));
	EXPECT_OK(va_op(fd, a, AMDGPU_VA_OP_MAP, va, 0, 65536));
	EXPECT_RET(va_op(fd, b, AMDGPU_VA_OP_MAP, va + 4096, 0, 4096), -EINVAL);
	EXPECT_RET(va_op(fd, b, AMDGPU_VA_OP_MAP, va + 65537, 0, 4096), -EINVAL);
	EXPECT_RET(va_op(fd, b, AMDGPU_VA_OP_MAP, va + 65536, 65536, 4096), -EINVAL);
	EXPECT_RET(va_op(fd, b, AMDGPU_VA_OP_MAP, 4096, 0, 4096), -EINVAL);
	EXPECT_RET(va_op(fd, b, AMDGPU_VA_OP_UNMAP, va, 0, 65536), -ENOENT);
	EXPECT_RET(va_op(fd, 0x1234, AMDGPU_VA_OP_MAP, va + 65536, 0, 4096), -ENOENT);
	EXPECT_RET(va_op(fd, a, 77, va, 0, 65536), -EINVAL);
	EXPECT_OK(va_op(fd, b, AMDGPU_VA_OP_MAP, va + 65536, 4096, 8192));
	EXPECT_OK(va_op(fd, a, AMDGPU_VA_OP_UNMAP, va, 0, 65536));
	EXPECT_RET(va_op(fd, a, AMDGPU_VA_OP_UNMAP, va, 0, 65536), -ENOENT);
	/* Closing the handle removes the mapping. */
	EXPECT_OK(destroy(fd, b));
	EXPECT_OK(va_op(fd, a, AMDGPU_VA_OP_MAP, va + 65536, 0, 65536));
	EXPECT_OK(va_op(fd, 0, AMDGPU_VA_OP_CLEAR, va, 0, 1 << 20));
	EXPECT_OK(va_op(fd, a, AMDGPU_VA_OP_MAP, va, 0, 65536));
}

static int metadata(int fd, uint32_t handle, uint32_t op, struct drm_amdgpu_gem_metadata *args)
{
	args->handle = handle;
	args->op = op;
	return call(fd, DRM_IOCTL_AMDGPU_GEM_METADATA, args);
}

TEST(gem_metadata)
{
	struct drm_amdgpu_gem_metadata set = { 0 }, get = { 0 };
	struct drm_amdgpu_gem_create_in info;
	struct drm_amdgpu_gem_op op = { .op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO,
					.value = kfd_va(&info) };
	uint32_t handle;
	int fd = render(NULL);

	ASSERT_OK(create(fd, 65536, AMDGPU_GEM_DOMAIN_VRAM, &handle));
	set.data.flags = 5;
	set.data.data_size_bytes = 8;
	set.data.data[0] = 0x1234;
	set.data.data[1] = 0x5678;
	EXPECT_OK(metadata(fd, handle, AMDGPU_GEM_METADATA_OP_SET_METADATA, &set));
	EXPECT_OK(metadata(fd, handle, AMDGPU_GEM_METADATA_OP_GET_METADATA, &get));
	EXPECT_EQ(get.data.flags, 5);
	EXPECT_EQ(get.data.data_size_bytes, 8);
	EXPECT_EQ(get.data.data[1], 0x5678);
	/* What is not stored is left as it is. */
	get.data.data[1] = get.data.data[2] = 0x9abcdef0;
	set.data.data_size_bytes = 6;
	EXPECT_OK(metadata(fd, handle, AMDGPU_GEM_METADATA_OP_SET_METADATA, &set));
	EXPECT_OK(metadata(fd, handle, AMDGPU_GEM_METADATA_OP_GET_METADATA, &get));
	EXPECT_EQ(get.data.data[1], 0x9abc5678);
	EXPECT_EQ(get.data.data[2], 0x9abcdef0);
	set.data.data_size_bytes = 0;
	set.data.flags = 6;
	EXPECT_OK(metadata(fd, handle, AMDGPU_GEM_METADATA_OP_SET_METADATA, &set));
	EXPECT_OK(metadata(fd, handle, AMDGPU_GEM_METADATA_OP_GET_METADATA, &get));
	EXPECT_EQ(get.data.flags, 5);
	EXPECT_EQ(get.data.data_size_bytes, 0);
	EXPECT_EQ(get.data.data[0], 0x1234);
	set.data.data_size_bytes = 1000;
	EXPECT_RET(metadata(fd, handle, AMDGPU_GEM_METADATA_OP_SET_METADATA, &set), -EINVAL);

	op.handle = handle;
	EXPECT_OK(call(fd, DRM_IOCTL_AMDGPU_GEM_OP, &op));
	EXPECT_EQ(info.bo_size, 65536);
	EXPECT_EQ(info.domains, AMDGPU_GEM_DOMAIN_VRAM);
}

/* Flags at the creation of a BO, of which rkfd does not support all. */
TEST(gem_create_flags)
{
	static const struct {
		uint64_t flag;
		int ret, amdgpu;
	} flags[] = {
		{ AMDGPU_GEM_CREATE_EXPLICIT_SYNC, 0, 0 },
		{ AMDGPU_GEM_CREATE_VM_ALWAYS_VALID, -EINVAL, 0 },
		{ AMDGPU_GEM_CREATE_DISCARDABLE, -EINVAL, 0 },
		{ AMDGPU_GEM_CREATE_GFX12_DCC, -EINVAL, 0 },
		{ AMDGPU_GEM_CREATE_VRAM_CONTIGUOUS, -EINVAL, -EINVAL },
		{ AMDGPU_GEM_CREATE_ENCRYPTED, -EINVAL, -EINVAL },
		{ 1ull << 63, -EINVAL, -EINVAL },
	};
	int fd = render(NULL);

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		union drm_amdgpu_gem_create args = {
			.in = { .bo_size = 65536, .domains = AMDGPU_GEM_DOMAIN_VRAM,
				.domain_flags = flags[i].flag },
		};
		struct drm_amdgpu_gem_create_in info = { 0 };
		struct drm_amdgpu_gem_op op = { .op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO,
						.value = kfd_va(&info) };
		int ret = call(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &args);
		int wanted = ktap_is_rkfd() ? flags[i].ret : flags[i].amdgpu;

		EXPECT(ret == wanted, "flag %#llx returns %s", (unsigned long long)flags[i].flag,
		       ktap_errno_name(ret));
		if (ret)
			continue;
		op.handle = args.out.handle;
		EXPECT_OK(call(fd, DRM_IOCTL_AMDGPU_GEM_OP, &op));
		EXPECT(info.domain_flags & flags[i].flag, "%#llx",
		       (unsigned long long)info.domain_flags);
		EXPECT_OK(destroy(fd, op.handle));
	}
}

TEST(prime_between_files)
{
	struct drm_prime_handle out = { .flags = DRM_CLOEXEC | DRM_RDWR }, in = { 0 };
	uint32_t handle, other = 0;
	volatile uint32_t *words;
	int a = render(NULL), b = render(NULL);

	ASSERT_OK(create(a, 65536, AMDGPU_GEM_DOMAIN_GTT, &handle));
	out.handle = handle;
	ASSERT_OK(call(a, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out));
	EXPECT_EQ(lseek(out.fd, 0, SEEK_END), 65536);
	words = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, out.fd, 0);
	ASSERT(words != MAP_FAILED, "%s", strerror(errno));
	words[16383] = 0x5a5a;
	in.fd = out.fd;
	ASSERT_OK(call(b, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in));
	other = in.handle;
	close(out.fd);
	EXPECT_OK(destroy(a, handle));
	EXPECT_OK(va_op(b, other, AMDGPU_VA_OP_MAP, 0x7000000000ull, 0, 65536));
	EXPECT_EQ(words[16383], 0x5a5a);
	munmap((void *)words, 65536);
}

TEST(bad_bo_arguments)
{
	uint32_t handle;
	uint64_t offset;
	int fd = render(NULL);

	EXPECT_RET(create(fd, 4096, 1ull << 40, &handle), -EINVAL);
	EXPECT_RET(create(fd, 1ull << 46, AMDGPU_GEM_DOMAIN_VRAM, &handle), -ENOMEM);
	EXPECT_RET(offset_of(fd, 0x1234, &offset), -ENOENT);
	EXPECT_RET(destroy(fd, 0x1234), -EINVAL);
}

TEST(handles_are_per_file)
{
	int a = render(NULL), b = render(NULL);
	uint32_t handle;
	uint64_t offset, none;
	void *p;

	ASSERT_OK(create(a, 4096, AMDGPU_GEM_DOMAIN_GTT, &handle));
	ASSERT_OK(offset_of(a, handle, &offset));
	EXPECT_RET(offset_of(b, handle, &none), -ENOENT);
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, b, (off_t)offset);
	EXPECT(p == MAP_FAILED && errno == EACCES, "%s",
	       p == MAP_FAILED ? strerrorname_np(errno) : "mapped");
}

/* They need a module parameter, user_queue=1 in the C driver. */
TEST(no_user_queues_by_default)
{
	union drm_amdgpu_gem_create doorbells = { 0 };
	struct drm_amdgpu_userq_signal signal = { 0 };
	struct drm_amdgpu_userq_wait wait = { 0 };
	union drm_amdgpu_userq args = { 0 };
	int fd = render(NULL);

	EXPECT_RET(kfd_ioctl(fd, DRM_IOCTL_AMDGPU_USERQ, &args), -ENOTSUPP);
	EXPECT_RET(kfd_ioctl(fd, DRM_IOCTL_AMDGPU_USERQ_SIGNAL, &signal), -ENOTSUPP);
	EXPECT_RET(kfd_ioctl(fd, DRM_IOCTL_AMDGPU_USERQ_WAIT, &wait), -ENOTSUPP);
	/* The C driver gives doorbells to all files. */
	doorbells.in.bo_size = KFD_PAGE;
	doorbells.in.domains = AMDGPU_GEM_DOMAIN_DOORBELL;
	EXPECT_RET(kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &doorbells),
		   ktap_is_rkfd() ? -EINVAL : 0);
}

static void open_files_with_bos(void *unused)
{
	(void)unused;
	for (int i = 0; i < 32; i++) {
		int fd = render(NULL);
		uint32_t handle;

		for (int n = 0; n < 8; n++)
			ASSERT_OK(create(fd, 65536,
					 n & 1 ? AMDGPU_GEM_DOMAIN_GTT : AMDGPU_GEM_DOMAIN_VRAM,
					 &handle));
		if (i & 1)
			close(fd);
	}
}

TEST(exit_releases_files_and_bos)
{
	uint64_t vram, gtt;
	struct kfd k;

	/* The first file of a driver causes allocations that stay. */
	ASSERT_OK(ktap_in_child(open_files_with_bos, NULL));
	fixture_open_only(&k);
	usleep(500000);
	vram = amdgpu_info(&k, AMDGPU_INFO_VRAM_USAGE);
	gtt = amdgpu_info(&k, AMDGPU_INFO_GTT_USAGE);
	ASSERT_OK(ktap_in_child(open_files_with_bos, NULL));
	expect_usage(&k, AMDGPU_INFO_VRAM_USAGE, vram);
	expect_usage(&k, AMDGPU_INFO_GTT_USAGE, gtt);
}
