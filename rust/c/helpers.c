// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers of other inline functions and macros of the kernel, for Rust.
 */

#include <linux/aperture.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/devcoredump.h>
#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/dmi.h>
#include <linux/fs.h>
#include <linux/fsnotify.h>
#include <linux/io.h>
#include <linux/iommu.h>
#include <linux/ioport.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/pci.h>
#include <linux/pid.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sysfs.h>
#include <linux/topology.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/unroll.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>

#include <asm/cpu_device_id.h>

#include "helpers.h"

bool rkfd_helper_access_ok(u64 addr, size_t size)
{
	return access_ok((const void __user *)addr, size);
}

bool rkfd_helper_in_compat_syscall(void)
{
	return in_compat_syscall();
}

void *rkfd_helper_alloc_workqueue(const char *name, unsigned int flags, int max_active)
{
	return alloc_workqueue("%s", flags, max_active, name);
}

int rkfd_helper_node_distance(int from, int to)
{
	return node_distance(from, to);
}

unsigned int rkfd_helper_cpus_of_node(int node)
{
	return cpumask_weight(cpumask_of_node(node));
}

/* Returns the APIC id of the first online CPU of a node, or -1 if it has none. */
s64 rkfd_helper_first_apicid_of_node(int node)
{
	unsigned int cpu;
	s64 id = -1;

	/* The mask has online CPUs only. */
	cpus_read_lock();
	cpu = cpumask_first(cpumask_of_node(node));
	if (cpu < nr_cpu_ids)
		id = cpu_data(cpu).topo.apicid;
	cpus_read_unlock();
	return id;
}

bool rkfd_helper_cpu_is_amd(void)
{
	return boot_cpu_data.x86_vendor == X86_VENDOR_AMD;
}

/*
 * Returns whether the platform does not change the speed of the device's link at run time
 * (amdgpu_pcie_dynamic_switching_quirks).
 */
bool rkfd_helper_pcie_speed_is_fixed(struct pci_dev *pdev)
{
	static const struct x86_cpu_id fixed[] = {
		X86_MATCH_VENDOR_FAM(INTEL, X86_FAMILY_ANY, NULL),
		X86_MATCH_VENDOR_FAM_MODEL(AMD, 0x17, 0x08, NULL),
		{}
	};

	return !dev_is_removable(&pdev->dev) && x86_match_cpu(fixed);
}

struct dmi_visitor {
	void (*f)(const u8 *record, u8 length, void *data);
	void *data;
};

static void visit_dmi_record(const struct dmi_header *record, void *data)
{
	struct dmi_visitor *v = data;

	v->f((const u8 *)record, record->length, v->data);
}

/* Calls f with each record of the SMBIOS table, without its strings. */
void rkfd_helper_dmi_walk(void (*f)(const u8 *record, u8 length, void *data), void *data)
{
	struct dmi_visitor v = { .f = f, .data = data };

	dmi_walk(visit_dmi_record, &v);
}

bool rkfd_helper_in_guest(void)
{
	return boot_cpu_has(X86_FEATURE_HYPERVISOR);
}

u64 rkfd_helper_node_bytes(int node)
{
	pg_data_t *pgdat = NODE_DATA(node);
	u64 pages = 0;
	int zone;

	for (zone = 0; zone < MAX_NR_ZONES; zone++)
		pages += zone_managed_pages(&pgdat->node_zones[zone]);
	return pages << PAGE_SHIFT;
}

int rkfd_helper_next_online_node(int after)
{
	int node = after < 0 ? first_online_node : next_online_node(after);

	return node < MAX_NUMNODES ? node : -1;
}

unsigned long rkfd_helper_nsecs_to_jiffies(u64 ns)
{
	return nsecs_to_jiffies(ns);
}

void rkfd_helper_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}

void rkfd_helper_wait_until_zero(int *var)
{
	wait_var_event(var, !READ_ONCE(*var));
}

/* Of the node of the device, whatever the memory policy of the task. */
struct page *rkfd_helper_alloc_pages(struct device *dev, unsigned int order, bool zero)
{
	struct page *page;
	gfp_t gfp = GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;

	/*
	 * Large runs are optional: do not reclaim for them. They are mapped by PFN, without
	 * references to pages: no compound page is necessary, whose tail pages cost time.
	 */
	if (order)
		gfp = GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN | __GFP_THISNODE;
	if (zero)
		gfp |= __GFP_ZERO;
	page = alloc_pages_node(dev_to_node(dev), gfp, order);
	if (page)
		mod_lruvec_page_state(page, NR_GPU_ACTIVE, 1 << order);
	return page;
}

void rkfd_helper_free_pages(phys_addr_t addr, unsigned int order)
{
	struct page *page = phys_to_page(addr);

	mod_lruvec_page_state(page, NR_GPU_ACTIVE, -(1 << order));
	__free_pages(page, order);
}

phys_addr_t rkfd_helper_page_to_phys(struct page *page)
{
	return page_to_phys(page);
}

void *rkfd_helper_phys_to_virt(phys_addr_t addr)
{
	return phys_to_virt(addr);
}

/* As memset_io(), in units of 64 bits that are written at once. */
void rkfd_helper_fill64_io(void __iomem *to, u64 value, size_t count)
{
	u64 __iomem *at = to;
	unsigned int i;

	/* A whole page table has 512: the branch would cost as much as the store. */
	for (; count >= 8; count -= 8, at += 8)
		unrolled_full
		for (i = 0; i < 8; i++)
			__raw_writeq(value, at + i);
	while (count--)
		__raw_writeq(value, at++);
}

/* As __iowrite64_copy(), with fewer branches. */
void rkfd_helper_copy64_io(void __iomem *to, const u64 *from, size_t count)
{
	u64 __iomem *at = to;
	unsigned int i;

	for (; count >= 8; count -= 8, at += 8, from += 8)
		unrolled_full
		for (i = 0; i < 8; i++)
			__raw_writeq(from[i], at + i);
	while (count--)
		__raw_writeq(*from++, at++);
}

bool rkfd_helper_dma_mapping_error(struct device *dev, dma_addr_t addr)
{
	return dma_mapping_error(dev, addr);
}

/*
 * Each call site is a lock class. Handlers of device attributes remove topology nodes, hence two
 * classes: an attribute is in use while those of the other are drained.
 */
void rkfd_helper_sysfs_attr_init(struct attribute *attr)
{
	sysfs_attr_init(attr);
}

void rkfd_helper_sysfs_device_attr_init(struct attribute *attr)
{
	sysfs_attr_init(attr);
}

void rkfd_helper_dev_coredump(struct device *dev, void *data, size_t len)
{
	dev_coredumpv(dev, data, len, GFP_KERNEL);
}

static void dma_mask_release(struct device *dev, void *res)
{
}

/*
 * The mask of a device is set once per binding, which a resource of the device records. Called with
 * the device lock held. -EBUSY: the mask was set before.
 */
int rkfd_helper_dma_set_mask(struct device *dev, u64 mask)
{
	void *res;
	int ret;

	if (devres_find(dev, dma_mask_release, NULL, NULL))
		return -EBUSY;
	res = devres_alloc(dma_mask_release, 1, GFP_KERNEL);
	if (!res)
		return -ENOMEM;
	ret = dma_set_mask_and_coherent(dev, mask);
	if (ret) {
		devres_free(res);
		return ret;
	}
	devres_add(dev, res);
	return 0;
}

/* Whether the DMA addresses of system memory are physical: no IOMMU translates them. */
bool rkfd_helper_dma_is_direct(struct device *dev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	return !domain || domain->type == IOMMU_DOMAIN_IDENTITY;
}

/* Whether [start, start + size) lies in a memory BAR of the device. */
bool rkfd_helper_pci_bar_contains(struct pci_dev *pdev, u64 start, u64 size)
{
	int bar;

	for (bar = 0; bar < PCI_STD_NUM_BARS; bar++) {
		u64 len = pci_resource_len(pdev, bar);
		u64 first = pci_resource_start(pdev, bar);

		if ((pci_resource_flags(pdev, bar) & IORESOURCE_MEM) && start >= first &&
		    size <= len && start - first <= len - size)
			return true;
	}
	return false;
}

/* Whether the current task is a kernel thread that has no user memory. */
bool rkfd_helper_is_kthread(void)
{
	return (current->flags & PF_KTHREAD) && !current->mm;
}

/* Returns the task with an id in the current PID namespace, with a reference, or NULL. */
struct task_struct *rkfd_helper_find_task(int nr)
{
	struct pid *pid = find_get_pid(nr);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_PID);

	put_pid(pid);
	return task;
}

/* Returns the leader of a task's thread group, with a reference, or NULL if the task has ended. */
struct task_struct *rkfd_helper_group_leader(struct task_struct *task)
{
	struct task_struct *leader = NULL;

	rcu_read_lock();
	if (pid_alive(task)) {
		leader = task->group_leader;
		get_task_struct(leader);
	}
	rcu_read_unlock();
	return leader;
}

/* Whether the current task has attached to @task by ptrace(). */
bool rkfd_helper_is_traced_by_current(struct task_struct *task)
{
	bool traced;

	rcu_read_lock();
	traced = ptrace_parent(task) == current;
	rcu_read_unlock();
	return traced;
}

/*
 * Writes to @file without waiting for room. A pipe waits for its readers and writers to release its
 * lock: for workers only. Returns the number of bytes or a negative errno.
 */
ssize_t rkfd_helper_write_nowait(struct file *file, const void *data, size_t len)
{
	struct kvec vec = { .iov_base = (void *)data, .iov_len = len };
	struct iov_iter from;
	struct kiocb iocb;
	ssize_t ret;

	/* Other files may ignore the flag. Named pipes have no FMODE_NOWAIT. */
	if (!(file->f_mode & FMODE_NOWAIT) && !S_ISFIFO(file_inode(file)->i_mode))
		return -EOPNOTSUPP;
	/* rw_verify_area() waits for a listener of pre-content events. */
	if (FMODE_FSNOTIFY_HSM(file->f_mode))
		return -EOPNOTSUPP;
	if (!(file->f_mode & FMODE_WRITE) || !file->f_op->write_iter)
		return -EBADF;
	init_sync_kiocb(&iocb, file);
	iocb.ki_flags |= IOCB_NOWAIT;
	iov_iter_kvec(&from, ITER_SOURCE, &vec, 1, len);
	ret = rw_verify_area(WRITE, file, &iocb.ki_pos, len);
	if (ret)
		return ret;
	/*
	 * Not vfs_iocb_iter_write(): while the file system is frozen it waits, also for a named
	 * pipe.
	 */
	if (!file_start_write_trylock(file))
		return -EAGAIN;
	ret = file->f_op->write_iter(&iocb, &from);
	file_end_write(file);
	if (ret > 0)
		fsnotify_modify(file);
	return ret;
}

/*
 * As amdgpu_device_init(), for displays only: sysfb_disable() is for all devices, if the one that
 * is asked for it is the default VGA device or none is.
 */
int rkfd_helper_remove_boot_display(struct pci_dev *pdev)
{
	switch (pdev->class >> 8) {
	case PCI_CLASS_DISPLAY_VGA:
	case PCI_CLASS_DISPLAY_OTHER:
		return aperture_remove_conflicting_pci_devices(pdev, "rkfd");
	default:
		return 0;
	}
}

int rkfd_helper_pci_domain_nr(struct pci_bus *bus)
{
	return pci_domain_nr(bus);
}

/* Takes the lock of the device if it is free and the device has a driver. */
bool rkfd_helper_pci_trylock_bound(struct pci_dev *pdev)
{
	if (!device_trylock(&pdev->dev))
		return false;
	if (pdev->dev.driver && pdev->dev.driver->owner == THIS_MODULE)
		return true;
	device_unlock(&pdev->dev);
	return false;
}

void rkfd_helper_pci_unlock(struct pci_dev *pdev)
{
	device_unlock(&pdev->dev);
}

void rkfd_helper_release_mem_region(struct resource *res)
{
	release_mem_region(res->start, resource_size(res));
}

MODULE_VERSION("0.2.0");
