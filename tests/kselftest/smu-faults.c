// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests faults of the power firmware (SMU) and of the firmware around it, also before and during a
 * reset of the card, on an MI300: the card works afterwards. Sets knobs of the GPU model.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"
#include "knobs.h"
#include "listen.h"

static void open_control(void)
{
	if (gpu_is_gfx12())
		SKIP("the driver does not manage the SMU of this card");
	knobs_open();
	device_need_reset();
}

/* A message of a monitoring program has no response, and none comes later. */
static void lose_a_message(void)
{
	unsigned int before = knob_hits("smu.silent");
	char text[64];

	knob_set("smu.silent", 1);
	EXPECT(device_try_get("gpu_busy_percent", text, sizeof(text)) < 0);
	EXPECT_EQ(knob_hits("smu.silent"), before + 1);
}

/* The scheduler does not preempt the queue of a process that ends: the card is reset. */
static void hang(void)
{
	int resets = listen_for_resets();

	knob_set("hws.no_preempt", 1);
	ASSERT_OK(ktap_in_child(fixture_leaves_queue, NULL));
	expect_reset(resets);
	knob_set("hws.no_preempt", 0);
}

/* Resets the card by `reset`; the firmware rejects the first limit that is restored. */
static void reset_with_a_rejected_limit(void (*reset)(void))
{
	unsigned int before = knob_hits("smu.no_limit");

	knob_set("smu.no_limit", 1);
	reset();
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	EXPECT_EQ(knob_hits("smu.no_limit"), before + 1);
}

TEST_TIMEOUT(function_reset_after_a_lost_message, 120)
{
	open_control();
	lose_a_message();
	device_reset();
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

TEST_TIMEOUT(hang_after_a_lost_message, 180)
{
	open_control();
	lose_a_message();
	hang();
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* The firmware gets no further message before a reset, and nothing waits for it again. */
TEST_TIMEOUT(messages_after_a_lost_one, 120)
{
	double start;
	char text[64];

	open_control();
	lose_a_message();
	start = seconds_now();
	for (int i = 0; i < 4; i++)
		EXPECT(device_try_get("gpu_busy_percent", text, sizeof(text)) < 0);
	EXPECT(seconds_now() - start < 2, "%.1f s", seconds_now() - start);
	device_reset();
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	EXPECT_OK(device_try_get("gpu_busy_percent", text, sizeof(text)));
}

/* The firmware, which has lost the limit, keeps that of the card. */
TEST_TIMEOUT(limit_is_rejected_after_a_hang, 180)
{
	char most[64], text[64];

	open_control();
	device_get("hwmon/hwmon*/power1_cap_max", most, sizeof(most));
	device_set("hwmon/hwmon*/power1_cap", "300000000");
	reset_with_a_rejected_limit(hang);
	device_get("hwmon/hwmon*/power1_cap", text, sizeof(text));
	EXPECT(!strcmp(text, most), "%s instead of %s", text, most);
}

/* The limits are those of the card then. */
TEST_TIMEOUT(clocks_are_rejected_after_a_reset, 120)
{
	char range[256], text[256];

	open_control();
	device_get("pp_od_clk_voltage", range, sizeof(range));
	device_set("power_dpm_force_performance_level", "manual");
	device_set("pp_od_clk_voltage", "s 1 1500");
	device_set("pp_od_clk_voltage", "c");
	device_get("pp_od_clk_voltage", text, sizeof(text));
	EXPECT(strcmp(text, range), "%s", text);
	reset_with_a_rejected_limit(device_reset);
	device_get("pp_od_clk_voltage", text, sizeof(text));
	EXPECT(!strcmp(text, range), "%s instead of %s", text, range);
	device_set("power_dpm_force_performance_level", "auto");
}

#define LEVEL "power_dpm_force_performance_level"
#define LIMITS "pp_od_clk_voltage"
#define CLOCK "hwmon/hwmon*/freq1_input"

/* Expects a text in a file of the device. */
static void expect_text(const char *file, const char *wanted)
{
	char text[256];

	/* Metrics may be a few milliseconds old. */
	usleep(50000);
	device_get(file, text, sizeof(text));
	EXPECT(!strcmp(text, wanted), "%s: %s instead of %s", file, text, wanted);
}

/* Limits and clock of the card without settings. */
struct card {
	char range[256], clock[64];
};

/* Edits the lowest shader clock in the level manual. */
static void begin_edit(struct card *card)
{
	open_control();
	device_get(LIMITS, card->range, sizeof(card->range));
	device_get(CLOCK, card->clock, sizeof(card->clock));
	device_set(LEVEL, "manual");
	device_set(LIMITS, "s 0 1000");
}

/* Expects that the level auto removes all settings. */
static void end_edit(const struct card *card)
{
	device_set(LEVEL, "auto");
	expect_text(LIMITS, card->range);
	expect_text(CLOCK, card->clock);
}

/* The limits of a commit that fails at one of them: the level auto removes the others. */
TEST_TIMEOUT(commit_is_accepted_in_part, 120)
{
	struct card card;

	begin_edit(&card);
	device_set(LIMITS, "m 1 1100");
	knob_set("smu.no_highest", 1);
	EXPECT(device_try_set(LIMITS, "c") < 0);
	expect_text(CLOCK, "1000000000\n");
	end_edit(&card);
}

/* A level that the firmware refuses is not that of the card. */
TEST_TIMEOUT(level_that_fails, 120)
{
	struct card card;

	begin_edit(&card);
	device_set(LIMITS, "c");
	knob_set("smu.no_limit", 1);
	EXPECT(device_try_set(LEVEL, "auto") < 0);
	expect_text(LEVEL, "manual\n");
	expect_text(CLOCK, "1000000000\n");
	end_edit(&card);
}

/* Determinism begins with a commit: a reset before it restores the limits of the level before. */
TEST_TIMEOUT(reset_before_determinism, 120)
{
	struct card card;
	char limits[256];

	begin_edit(&card);
	device_set(LIMITS, "c");
	device_set(LEVEL, "perf_determinism");
	device_get(LIMITS, limits, sizeof(limits));
	device_reset();
	expect_text(LIMITS, limits);
	expect_text(CLOCK, "1000000000\n");
	end_edit(&card);
}

/* The first messages for metrics fail at a probe. */
TEST_TIMEOUT(metrics_fail_at_a_probe, 120)
{
	unsigned int before;
	char text[64];

	open_control();
	before = knob_hits("smu.no_metrics");
	ASSERT_OK(device_unbind());
	knob_set("smu.no_metrics", 3);
	ASSERT_OK(device_bind());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	EXPECT_EQ(knob_hits("smu.no_metrics"), before + 3);
	EXPECT_OK(device_try_get("gpu_busy_percent", text, sizeof(text)));
}

/* The boot loader reports more than that it is ready. */
TEST_TIMEOUT(boot_loader_flags_after_a_reset, 180)
{
	open_control();
	knob_set("psp.flags", 0x10);
	hang();
	EXPECT(knob_hits("psp.flags") >= 1);
	knob_set("psp.flags", 0);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* The boot firmware does not set the address of VRAM again. */
TEST_TIMEOUT(no_frame_buffer_after_a_reset, 120)
{
	unsigned int before;
	int log;

	open_control();
	before = knob_hits("gmc.fb_lost");
	log = kmsg_open();
	knob_set("gmc.fb_lost", 1);
	device_reset();
	knob_set("gmc.fb_lost", 0);
	EXPECT(knob_hits("gmc.fb_lost") > before);
	EXPECT_EQ(kmsg_lines_with(log, "frame buffer aperture"), 1);
	close(log);
	device_reset();
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* Expects the VRAM of bad pages in debugfs, which only rkfd has. */
static void expect_retired(uint64_t bytes)
{
	uint64_t retired = 0;

	ASSERT_OK(kfd_sysfs_value("/sys/kernel/debug/kfd/vram", "retired", &retired));
	EXPECT_EQ(retired, bytes);
}

/* The EEPROM, whose bad pages are known, does not respond during a reset. */
TEST_TIMEOUT(bad_pages_are_known_at_a_reset, 120)
{
	const char *pages = getenv("BAD_PAGES");

	if (!pages)
		SKIP("needs $BAD_PAGES, a card with an EEPROM");
	open_control();
	knob_set("smu.i2c_busy", 100);
	device_reset();
	knob_set("smu.i2c_busy", 0);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	if (ktap_is_rkfd())
		expect_retired(strtoul(pages, NULL, 0) * KFD_PAGE);
}
