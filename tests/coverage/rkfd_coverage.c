// SPDX-License-Identifier: GPL-2.0
/*
 * Records which blocks of rkfd.ko run, in any context. The compilers call
 * __sanitizer_cov_trace_pc() in each block of a module that `COVERAGE=1 scripts/build module`
 * builds, and, on an edge, in that for a kernel with KCOV, of which scripts/vm then renames the
 * call; KCOV records, too. `rkfd-coverage` in debugfs lists those that ran: offsets in the module's
 * text, a line each. They are kept while rkfd is not loaded.
 */

#include <linux/cache.h>
#include <linux/debugfs.h>
#include <linux/instruction_pointer.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

/*
 * A byte for each byte of the text, so that concurrent stores need no atomics. Not in
 * __ro_after_init, where kmemleak looks for no pointers.
 */
static u8 *covered __read_mostly;
static unsigned long base __read_mostly, size __read_mostly;
static struct dentry *file;

/* Text beyond this is not recorded. */
#define LARGEST (16ul << 20)

static __always_inline void record(unsigned long address)
{
	unsigned long offset = address - READ_ONCE(base);

	if (offset < READ_ONCE(size) && !READ_ONCE(covered[offset]))
		WRITE_ONCE(covered[offset], 1);
}

#ifdef CONFIG_KCOV
/*
 * The kernel's function reads its return address, too, and so must be called by a jump. The
 * compiler, to which its name is that of a builtin function, would call it otherwise.
 */
void kcov_trace_pc(void) __asm__("__sanitizer_cov_trace_pc");
void rkfd_trace_pc(void);
void notrace rkfd_trace_pc(void)
{
	record(_RET_IP_);
	kcov_trace_pc();
}
EXPORT_SYMBOL(rkfd_trace_pc);
#else
void __sanitizer_cov_trace_pc(void);
void notrace __sanitizer_cov_trace_pc(void)
{
	record(_RET_IP_);
}
EXPORT_SYMBOL(__sanitizer_cov_trace_pc);
#endif

/* Each load of the module has an address of its own. */
static int module_changes(struct notifier_block *nb, unsigned long state, void *data)
{
	const struct module *module = data;

	if (state == MODULE_STATE_COMING && !strcmp(module->name, "rkfd")) {
		WRITE_ONCE(size, 0);
		WRITE_ONCE(base, (unsigned long)module->mem[MOD_TEXT].base);
		WRITE_ONCE(size, min(LARGEST, (unsigned long)module->mem[MOD_TEXT].size));
	}
	return NOTIFY_OK;
}

static struct notifier_block notifier = { .notifier_call = module_changes };

/* Positions are offsets; 1 is added, as NULL ends the list. */
static void *next_covered(loff_t *pos)
{
	while (*pos < LARGEST && !READ_ONCE(covered[*pos]))
		++*pos;
	return *pos < LARGEST ? (void *)(unsigned long)(*pos + 1) : NULL;
}

static void *list_start(struct seq_file *m, loff_t *pos)
{
	return next_covered(pos);
}

static void *list_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return next_covered(pos);
}

static void list_stop(struct seq_file *m, void *v)
{
}

static int list_show(struct seq_file *m, void *v)
{
	seq_printf(m, "%#lx\n", (unsigned long)v - 1);
	return 0;
}

static const struct seq_operations list_sops = {
	.start = list_start,
	.next = list_next,
	.stop = list_stop,
	.show = list_show,
};
DEFINE_SEQ_ATTRIBUTE(list);

static int __init coverage_init(void)
{
	int ret;

	covered = vzalloc(LARGEST);
	if (!covered)
		return -ENOMEM;
	ret = register_module_notifier(&notifier);
	if (ret) {
		vfree(covered);
		return ret;
	}
	file = debugfs_create_file("rkfd-coverage", 0400, NULL, NULL, &list_fops);
	return 0;
}
module_init(coverage_init);

/* rkfd, which holds a reference, is not loaded: there are no calls. */
static void __exit coverage_exit(void)
{
	debugfs_remove(file);
	unregister_module_notifier(&notifier);
	vfree(covered);
}
module_exit(coverage_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Coverage of rkfd.ko in all contexts");
