// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Reads SMI events, see listen.h. */
#define _GNU_SOURCE
#include <poll.h>
#include <unistd.h>

#include "fixture.h"
#include "listen.h"

int listen_to(struct kfd *k, uint64_t mask)
{
	struct kfd_ioctl_smi_events_args args = { .gpuid = k->node.gpu_id };

	ASSERT_OK(kfd_ioctl(k->fd, AMDKFD_IOC_SMI_EVENTS, &args));
	if (mask)
		ASSERT(write((int)args.anon_fd, &mask, sizeof(mask)) == sizeof(mask));
	return (int)args.anon_fd;
}

int listen_to_svm(struct kfd *k)
{
	uint64_t mask = 0;

	for (int n = KFD_SMI_EVENT_MIGRATE_START; n <= KFD_SMI_EVENT_UNMAP_FROM_GPU; n++)
		mask |= KFD_SMI_EVENT_MASK_FROM_INDEX(n);
	return listen_to(k, mask);
}

unsigned int listen_count(const char *text, unsigned int event)
{
	unsigned int count = 0;
	char start[8];

	snprintf(start, sizeof(start), "%x ", event);
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		count += !strncmp(line, start, strlen(start));
	}
	return count;
}

const char *listen_lines(int fd, int ms)
{
	static char text[65536];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t n = 0;
	ssize_t got;

	text[0] = 0;
	while (poll(&p, 1, ms) == 1 && n < sizeof(text) - 1) {
		EXPECT(p.revents == POLLIN, "%#x", p.revents);
		got = read(fd, text + n, sizeof(text) - 1 - n);
		ASSERT(got > 0, "%s", strerror(errno));
		n += (size_t)got;
		text[n] = 0;
		ms = 300;
	}
	return text;
}

bool listen_for_line(int fd, const char *wanted, const char **all)
{
	double end = seconds_now() + 60 * ktap_time_factor();
	static char text[65536];
	bool found;

	text[0] = 0;
	while (!strstr(text, wanted) && seconds_now() < end)
		strncat(text, listen_lines(fd, 1000), sizeof(text) - strlen(text) - 1);
	found = strstr(text, wanted) != NULL;
	EXPECT(found, "no '%s' in '%s'", wanted, text);
	if (all)
		*all = text;
	return found;
}

int listen_for_resets(void)
{
	struct kfd k;

	fixture_open_only(&k);
	return listen_to(&k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_GPU_POST_RESET));
}

void expect_reset(int resets)
{
	const char *text;
	char back[16];

	snprintf(back, sizeof(back), "%x ", KFD_SMI_EVENT_GPU_POST_RESET);
	/* The number of resets and an empty cause. */
	if (listen_for_line(resets, back, &text))
		EXPECT(strstr(text, " \n") != NULL, "'%s'", text);
	close(resets);
}
