// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Error reports in the kernel's log, and what the driver has in use without processes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "../workloads/reports.h"
#include "fuzz.h"

#define LEDGER_SIZE (16u << 10)
/* Memory of the last process may be freed later. */
#define LEDGER_WAIT_MS 20000
#define SETTLED_MS 1000

bool log_has_report(void)
{
	static int log = -1;
	char line[8192];
	bool found = false;
	ssize_t got;

	if (log < 0) {
		log = fcntl(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC), F_DUPFD_CLOEXEC, 900);
		lseek(log, 0, SEEK_END);
	}
	for (;;) {
		const char *text, *mark;

		got = read(log, line, sizeof(line) - 1);
		/* Lines were overwritten before they were read. */
		if (got < 0 && errno == EPIPE)
			continue;
		if (got <= 0)
			break;
		line[got] = 0;
		text = strchr(line, ';') ?: line;
		mark = kernel_report(text);
		/* An allocation that was made to fail warns with a trace. */
		if (!mark || !strcmp(mark, REPORT_TRACE))
			continue;
		found = true;
		printf("# kernel: %.*s\n", (int)strcspn(text + 1, "\n"), text + 1);
	}
	return found;
}

/* The files in which everything is in use that processes can have. */
static void read_ledger(char *text)
{
	/* Of each file the lines with a word. */
	static const struct {
		const char *path, *word;
	} files[] = {
		{ "/sys/kernel/debug/kfd/vram", "  " },
		{ "/sys/kernel/debug/kfd/mem_limit", "used" },
		{ "/sys/kernel/debug/kfd/hqds", "Queue" },
		{ "/sys/kernel/debug/kfd/rings", "GART:" },
		{ "/sys/kernel/debug/kfd/resources", "" },
	};
	size_t used = 0;
	FILE *list;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		FILE *f = fopen(files[i].path, "re");
		char line[512];

		while (f && fgets(line, sizeof(line), f)) {
			/* Uncleared memory is free. */
			if (strstr(line, files[i].word) && !strstr(line, "uncleared") && used + strlen(line) < LEDGER_SIZE)
				used += (size_t)sprintf(text + used, "%s", line);
		}
		if (f)
			fclose(f);
	}
	list = popen("ls /sys/kernel/debug/kfd/process; cat /sys/module/rkfd/refcnt", "r");
	while (list && used < LEDGER_SIZE - 512) {
		char line[512];

		if (!fgets(line, sizeof(line), list))
			break;
		used += (size_t)sprintf(text + used, "%s", line);
	}
	if (list)
		pclose(list);
	text[used] = 0;
}

static char before[LEDGER_SIZE];

/* Waits until the last programs are released: no process has a PASID, and nothing changes. */
void ledger_start(void)
{
	static char now[LEDGER_SIZE];

	for (int ms = 0; ms < LEDGER_WAIT_MS; ms += SETTLED_MS) {
		usleep(SETTLED_MS * 1000);
		read_ledger(now);
		if (strstr(now, "\npasids 0\n") && !strcmp(before, now))
			break;
		strcpy(before, now);
	}
}

bool ledger_is_started(void)
{
	return before[0];
}

static void print_difference(const char *now)
{
	const char *old = before;

	while (*now || *old) {
		size_t a = strcspn(old, "\n"), b = strcspn(now, "\n");

		if (a != b || memcmp(old, now, a))
			printf("# leak: %.*s was %.*s\n", (int)b, now, (int)a, old);
		old += a + (old[a] == '\n');
		now += b + (now[b] == '\n');
	}
}

bool ledger_is_clean(void)
{
	static char now[LEDGER_SIZE];

	for (int i = 0; i < LEDGER_WAIT_MS / 100; i++) {
		read_ledger(now);
		if (!strcmp(before, now))
			return true;
		usleep(100000);
	}
	print_difference(now);
	return false;
}
