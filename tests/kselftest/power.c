// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the files of the GPU in sysfs that limit its clocks and its power, and report throttling.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "cardfiles.h"
#include "fixture.h"

#define LIMITS "pp_od_clk_voltage"

TEST(performance_level)
{
	static const char *const levels[] = { "manual", "perf_determinism", "auto" };
	static const char *const refused[] = { "low", "high", "profile_peak", "fast", "manual x", "" };
	struct kfd k;

	card_open_unlimited(&k);
	for (int i = 0; i < 3; i++) {
		char line[32];

		snprintf(line, sizeof(line), "%s\n", levels[i]);
		EXPECT_OK(card_set(&k, CARD_LEVEL, levels[i]));
		EXPECT(!strcmp(card_text(&k, CARD_LEVEL), line), "%s: %s", levels[i], card_text(&k, CARD_LEVEL));
	}
	/* A write of no bytes does not reach the driver. */
	for (int i = 0; *refused[i]; i++)
		EXPECT_RET(card_set(&k, CARD_LEVEL, refused[i]), -EINVAL);
	EXPECT_RET(card_set(&k, CARD_LEVEL, "\n"), -EINVAL);
	EXPECT(!strcmp(card_text(&k, CARD_LEVEL), "auto\n"));
}

/* Levels of a clock. */
struct levels {
	unsigned int count, current, mhz[8];
};

/* Reads the levels of a clock: lines "INDEX: MHZMhz *", the current one marked. */
static void read_levels(const struct kfd *k, const char *name, struct levels *l)
{
	unsigned int index, mhz;
	const char *at;
	int n = 0;

	memset(l, 0, sizeof(*l));
	l->current = 8;
	for (at = card_text(k, name); sscanf(at, "%u: %uMhz %n", &index, &mhz, &n) == 2; at += n) {
		ASSERT(index == l->count && index < 8, "%s: %s", name, at);
		l->mhz[l->count++] = mhz;
		if (at[n] == '*') {
			l->current = index;
			n += 2;
		}
	}
	EXPECT(l->count > 0 && !*at, "%s: %s", name, card_text(k, name));
	for (unsigned int i = 1; i < l->count; i++)
		EXPECT(l->mhz[i] > l->mhz[i - 1], "%s: %u, %u", name, l->mhz[i - 1], l->mhz[i]);
}

TEST(clock_levels)
{
	static const char *const others[] = { "pp_dpm_socclk", "pp_dpm_fclk", "pp_dpm_vclk",
					      "pp_dpm_dclk" };
	struct drm_amdgpu_info_device info = { 0 };
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&info),
					   .return_size = sizeof(info),
					   .query = AMDGPU_INFO_DEV_INFO };
	struct levels l;
	struct kfd k;

	card_open_unlimited(&k);
	ASSERT_OK(kfd_ioctl(k.drm, DRM_IOCTL_AMDGPU_INFO, &request));
	read_levels(&k, "pp_dpm_sclk", &l);
	EXPECT_EQ(l.mhz[0], info.min_engine_clock / 1000);
	EXPECT_EQ(l.mhz[l.count - 1], info.max_engine_clock / 1000);
	/* The GPU is idle: the clocks do not change. */
	ASSERT(l.current < l.count);
	EXPECT_EQ(l.mhz[l.current], card_sensor(&k, AMDGPU_INFO_SENSOR_GFX_SCLK));
	read_levels(&k, "pp_dpm_mclk", &l);
	EXPECT_EQ(l.mhz[0], info.min_memory_clock / 1000);
	EXPECT_EQ(l.mhz[l.count - 1], info.max_memory_clock / 1000);
	ASSERT(l.current < l.count);
	EXPECT_EQ(l.mhz[l.current], card_sensor(&k, AMDGPU_INFO_SENSOR_GFX_MCLK));
	for (int i = 0; i < 4; i++)
		read_levels(&k, others[i], &l);
}

/* Reads the limits of the shader clock. */
static void read_limits(const struct kfd *k, unsigned int *lowest, unsigned int *highest)
{
	int n = sscanf(card_text(k, LIMITS), "OD_SCLK:\n0: %uMhz\n1: %uMhz\n", lowest, highest);

	ASSERT(n == 2, "%s", card_text(k, LIMITS));
}

/* Executes a command of the limits with a number, unless that is 0. */
static int command(const struct kfd *k, const char *what, unsigned int mhz)
{
	char text[32];

	snprintf(text, sizeof(text), mhz ? "%s %u\n" : "%s\n", what, mhz);
	return card_set(k, LIMITS, text);
}

TEST(clock_limits)
{
	unsigned int lowest, highest, low, high, middle;
	char folder[96], text[256];
	struct levels l;
	struct kfd k;

	card_open_unlimited(&k);
	card_hwmon(&k, folder, sizeof(folder));
	read_limits(&k, &lowest, &highest);
	middle = (lowest + highest) / 2;
	EXPECT_RET(command(&k, "s 0", middle), -EINVAL);
	EXPECT_RET(card_set(&k, "pp_dpm_sclk", "0\n"), -EINVAL);
	EXPECT_OK(card_set(&k, CARD_LEVEL, "manual"));
	/* The card has other limits; words are missing, or too many. */
	EXPECT_RET(command(&k, "s 0", lowest - 1), -EINVAL);
	EXPECT_RET(command(&k, "s 1", highest + 1), -EINVAL);
	EXPECT_RET(command(&k, "s 2", middle), -EINVAL);
	EXPECT_RET(command(&k, "s 1", 0), -EINVAL);
	EXPECT_RET(command(&k, "s", 0), -EINVAL);
	EXPECT_RET(command(&k, "s 0 x", 0), -EINVAL);
	EXPECT_RET(command(&k, "c 1", 0), -EINVAL);
	EXPECT_RET(command(&k, "z", 0), -EINVAL);
	EXPECT_RET(command(&k, "m 0", middle), -EINVAL);
	EXPECT_RET(command(&k, "f 1", 100000), -EINVAL);
	EXPECT_RET(card_set(&k, "pp_dpm_sclk", "2\n"), -EINVAL);
	EXPECT_RET(card_set(&k, "pp_dpm_sclk", "x\n"), -EINVAL);
	EXPECT_RET(card_set(&k, "pp_dpm_mclk", "0\n"), -EINVAL);

	/* An edit is not in force before its commit. */
	EXPECT_OK(command(&k, "s 0", middle));
	EXPECT_OK(command(&k, "s 1", middle + 100));
	read_limits(&k, &low, &high);
	EXPECT(low == lowest && high == highest, "%u, %u", low, high);
	EXPECT_OK(command(&k, "c", 0));
	read_limits(&k, &low, &high);
	EXPECT(low == middle && high == middle + 100, "%u, %u", low, high);
	/* The C driver reads metrics again after some milliseconds only. */
	usleep(50000);
	EXPECT(card_fact(&k, folder, "freq1_input", 10) >= middle * 1000000ull);
	read_levels(&k, "pp_dpm_sclk", &l);
	EXPECT_EQ(l.count, 3);
	EXPECT_EQ(l.current, 1);
	EXPECT(l.mhz[1] >= middle, "%u", l.mhz[1]);
	EXPECT_OK(command(&k, "r", 0));
	read_limits(&k, &low, &high);
	EXPECT(low == lowest && high == highest, "%u, %u", low, high);

	/* 0 is no edit. */
	snprintf(text, sizeof(text), "%s", card_text(&k, LIMITS));
	EXPECT_OK(command(&k, "s 1", middle));
	EXPECT_OK(card_set(&k, LIMITS, "s 1 0\n"));
	EXPECT_OK(card_set(&k, LIMITS, "m 1 0\n"));
	EXPECT_OK(card_set(&k, LIMITS, "f 1 0\n"));
	EXPECT_OK(command(&k, "c", 0));
	EXPECT(!strcmp(card_text(&k, LIMITS), text), "%s", card_text(&k, LIMITS));

	/* A lowest clock above the highest. */
	EXPECT_OK(command(&k, "s 0", middle));
	EXPECT_OK(command(&k, "s 1", middle - 1));
	EXPECT_RET(command(&k, "c", 0), -EINVAL);
	EXPECT_OK(command(&k, "r", 0));

	EXPECT_OK(card_set(&k, "pp_dpm_sclk", "1\n"));
	usleep(50000);
	EXPECT(card_fact(&k, folder, "freq1_input", 10) >= highest * 1000000ull);
	EXPECT_OK(card_set(&k, "pp_dpm_sclk", "0 1\n"));

	EXPECT_OK(command(&k, "s 0", middle));
	EXPECT_OK(command(&k, "c", 0));
	EXPECT_OK(card_set(&k, CARD_LEVEL, "auto"));
	read_limits(&k, &low, &high);
	EXPECT(low == lowest && high == highest, "%u, %u", low, high);
}

TEST(determinism)
{
	unsigned int lowest, highest, low, high;
	struct kfd k;

	card_open_unlimited(&k);
	read_limits(&k, &lowest, &highest);
	EXPECT_OK(card_set(&k, CARD_LEVEL, "perf_determinism"));
	EXPECT_OK(command(&k, "s 1", highest - 200));
	EXPECT_OK(command(&k, "c", 0));
	read_limits(&k, &low, &high);
	EXPECT(low == lowest && high == highest - 200, "%u, %u", low, high);
	EXPECT_OK(card_set(&k, CARD_LEVEL, "manual"));
	read_limits(&k, &low, &high);
	EXPECT(low == lowest && high == highest, "%u, %u", low, high);

	/* The level auto removes a lowest clock from before this level, too. */
	EXPECT_OK(command(&k, "s 0", highest - 200));
	EXPECT_OK(command(&k, "c", 0));
	EXPECT_OK(card_set(&k, CARD_LEVEL, "perf_determinism"));
	/* Nor does that one limit the highest clock of this level. */
	EXPECT_OK(command(&k, "s 1", highest - 400));
	EXPECT_OK(command(&k, "c", 0));
	EXPECT_OK(card_set(&k, CARD_LEVEL, "auto"));
	read_limits(&k, &low, &high);
	EXPECT(low == lowest && high == highest, "%u, %u", low, high);
	usleep(50000);
	EXPECT_EQ(card_sensor(&k, AMDGPU_INFO_SENSOR_GFX_SCLK), lowest);
}

TEST(power_limit)
{
	char folder[96], cap[128], text[32];
	uint64_t most;
	struct kfd k;

	card_open_unlimited(&k);
	card_hwmon(&k, folder, sizeof(folder));
	snprintf(cap, sizeof(cap), "%s/power1_cap", folder);
	most = card_fact(&k, folder, "power1_cap_max", 10);
	EXPECT(most > 100000000 && most < 2000000000, "%" PRIu64, most);
	EXPECT_EQ(card_fact(&k, folder, "power1_cap_default", 10), most);
	EXPECT_EQ(card_fact(&k, folder, "power1_cap_min", 10), 0);
	EXPECT_EQ(card_number(&k, cap, 10), most);
	/* In whole W; below the power of the idle socket. */
	EXPECT_OK(card_set(&k, cap, "100999999\n"));
	EXPECT_EQ(card_number(&k, cap, 10), 100000000);
	usleep(50000);
	EXPECT(card_fact(&k, folder, "power1_input", 10) <= 100000000);
	EXPECT_OK(card_set(&k, cap, "0\n"));
	EXPECT_EQ(card_number(&k, cap, 10), 100000000);
	EXPECT_RET(card_set(&k, cap, "2000000000\n"), -EINVAL);
	EXPECT_RET(card_set(&k, cap, "5000000000\n"), -ERANGE);
	EXPECT_RET(card_set(&k, cap, "100000000000000000000\n"), -ERANGE);
	EXPECT_RET(card_set(&k, cap, "100 W\n"), -EINVAL);
	EXPECT_RET(card_set(&k, cap, "0x5f5e100\n"), -EINVAL);
	/* Decimal, not octal. */
	EXPECT_OK(card_set(&k, cap, "0100000000\n"));
	EXPECT_EQ(card_number(&k, cap, 10), 100000000);
	snprintf(text, sizeof(text), "%" PRIu64 "\n", most);
	EXPECT_OK(card_set(&k, cap, text));
	EXPECT_EQ(card_number(&k, cap, 10), most);
}

TEST(temperature_limits)
{
	char folder[96];
	struct kfd k;

	card_open_unlimited(&k);
	card_hwmon(&k, folder, sizeof(folder));
	for (int i = 2; i <= 3; i++) {
		uint64_t throttled, critical, now;
		char name[32];

		snprintf(name, sizeof(name), "temp%d_input", i);
		now = card_fact(&k, folder, name, 10);
		snprintf(name, sizeof(name), "temp%d_crit", i);
		throttled = card_fact(&k, folder, name, 10);
		snprintf(name, sizeof(name), "temp%d_emergency", i);
		critical = card_fact(&k, folder, name, 10);
		EXPECT(now < throttled && throttled < critical && critical < 150000,
		       "%" PRIu64 ", %" PRIu64 ", %" PRIu64, now, throttled, critical);
	}
}

/* The mask of features and their list agree, with the clocks whose levels are more than one. */
TEST(features)
{
	unsigned int high, low, n, bit, count = 0, last = 0;
	char *lines, name[24], state[12], head[40];
	uint64_t mask, clocks = 0;
	struct kfd k;

	card_open_unlimited(&k);
	lines = strdup(card_text(&k, "pp_features"));
	ASSERT(lines && sscanf(lines, "features high: 0x%8x low: 0x%8x\n", &high, &low) == 2, "%s",
	       lines);
	mask = (uint64_t)high << 32 | low;
	snprintf(head, sizeof(head), "No. %-20s  Bit : State\n", "Feature");
	lines = strchr(lines, '\n') + 1;
	EXPECT(!strncmp(lines, head, strlen(head)), "%s", lines);
	for (lines = strchr(lines, '\n') + 1; *lines; lines = strchr(lines, '\n') + 1) {
		char line[64];

		ASSERT(sscanf(lines, "%2u. %23s (%2u) : %11s\n", &n, name, &bit, state) == 4, "%s",
		       lines);
		snprintf(line, sizeof(line), "%02u. %-20s (%2u) : %s\n", count, name, bit,
			 mask >> bit & 1 ? "enabled" : "disabled");
		EXPECT(!strncmp(lines, line, strlen(line)), "'%s' is not at '%s'", line, lines);
		EXPECT(bit < 64 && (!count || bit > last), "%u after %u", bit, last);
		clocks |= (uint64_t)(!strcmp(name, "DPM_GFXCLK") || !strcmp(name, "DPM_UCLK") ||
				     !strcmp(name, "DPM_FCLK")) << bit;
		last = bit;
		count++;
	}
	EXPECT_EQ(count, 25);
	/* These clocks have levels, see clock_limits. */
	EXPECT_EQ(__builtin_popcountll(clocks & mask), 3);
}

#define THROTTLING "thermal_throttling_logging"

/* Expects whether throttling is reported, and the interval. */
static void expect_reports(const struct kfd *k, const char *state, unsigned int seconds)
{
	char line[128];

	snprintf(line, sizeof(line),
		 "%04x:%02x:%02x.0: thermal throttling logging %s, with interval %u seconds\n",
		 k->node.domain, k->node.location_id >> 8, k->node.location_id >> 3 & 31, state,
		 seconds);
	EXPECT(!strcmp(card_text(k, THROTTLING), line), "'%s', not '%s'", card_text(k, THROTTLING), line);
}

TEST(reports_of_throttling)
{
	static const char *const refused[] = { "-1", "3601", "x", "1 2", "\n" };
	struct kfd k;

	card_open_unlimited(&k);
	expect_reports(&k, "enabled", 60);
	EXPECT_OK(card_set(&k, THROTTLING, "1"));
	expect_reports(&k, "enabled", 1);
	EXPECT_OK(card_set(&k, THROTTLING, "0xe10\n"));
	expect_reports(&k, "enabled", 3600);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		EXPECT_RET(card_set(&k, THROTTLING, refused[i]), -EINVAL);
	EXPECT_OK(card_set(&k, THROTTLING, "0\n"));
	/* As it was. */
	expect_reports(&k, "disabled", 3600);
	EXPECT_OK(card_set(&k, THROTTLING, "60\n"));
	expect_reports(&k, "enabled", 60);
}

/* Levels of a policy of the power firmware, and the one that it starts with. */
struct policy {
	const char *name;
	int first, count;
	const char *const levels[4];
};

static const struct policy policies[] = {
	{ "pm_policy/soc_pstate", 0, 4,
	  { "soc_pstate_default", "soc_pstate_0", "soc_pstate_1", "soc_pstate_2" } },
	{ "pm_policy/xgmi_plpd", 1, 3, { "plpd_disallow", "plpd_default", "plpd_optimized" } },
};

static void expect_policy(const struct kfd *k, const struct policy *policy, int selected)
{
	char text[160] = "";
	size_t at = 0;

	for (int i = 0; i < policy->count; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%d : %s%s\n", i,
				       policy->levels[i], i == selected ? "*" : "");
	EXPECT(!strcmp(card_text(k, policy->name), text), "'%s', not '%s'", card_text(k, policy->name),
	       text);
}

TEST(policies_of_the_firmware)
{
	static const char *const refused[] = { "-1\n", "5\n", "4\n", "x\n", "1 2\n" };
	struct kfd k;

	card_open_unlimited(&k);
	for (size_t n = 0; n < sizeof(policies) / sizeof(policies[0]); n++) {
		const struct policy *policy = &policies[n];
		char line[16];

		expect_policy(&k, policy, policy->first);
		for (int i = 0; i < policy->count; i++) {
			snprintf(line, sizeof(line), "%#x\n", i);
			EXPECT_OK(card_set(&k, policy->name, line));
			expect_policy(&k, policy, i);
			EXPECT_OK(card_set(&k, policy->name, line));
		}
		for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
			EXPECT_RET(card_set(&k, policy->name, refused[i]), -EINVAL);
		/* The C driver dereferences a null pointer (amdgpu_set_pm_policy_attr). */
		if (ktap_is_rkfd())
			EXPECT_RET(card_set(&k, policy->name, "\n"), -EINVAL);
		expect_policy(&k, policy, policy->count - 1);
		/* Other clocks and limits stay. */
		EXPECT(!strcmp(card_text(&k, CARD_LEVEL), "auto\n"));
		snprintf(line, sizeof(line), "%d\n", policy->first);
		EXPECT_OK(card_set(&k, policy->name, line));
		expect_policy(&k, policy, policy->first);
	}
}

/* $POLICIES_FAIL: how many messages fail that select a policy; two. */
TEST(policies_that_fail)
{
	struct kfd k;

	if (!getenv("POLICIES_FAIL"))
		SKIP("the firmware selects policies");
	card_open_unlimited(&k);
	for (int n = 0; n < 2; n++) {
		const struct policy *policy = &policies[n];

		EXPECT_RET(card_set(&k, policy->name, "2\n"), -EIO);
		expect_policy(&k, policy, policy->first);
		/* The one that is selected needs no message. */
		EXPECT_OK(card_set(&k, policy->name, policy->first ? "1\n" : "0\n"));
	}
	for (int n = 0; n < 2; n++) {
		EXPECT_OK(card_set(&k, policies[n].name, "2\n"));
		expect_policy(&k, &policies[n], 2);
		EXPECT_OK(card_set(&k, policies[n].name, policies[n].first ? "1\n" : "0\n"));
	}
}
