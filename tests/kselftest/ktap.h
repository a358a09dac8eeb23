/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * KTAP harness: each TEST runs in its own process, and so in its own address space, which is the
 * key of all driver state. A test may crash or hang without affecting the others. Complaints in the
 * kernel log fail the test as well.
 */
#ifndef KTAP_H
#define KTAP_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The limit is multiplied by $KTAP_TIME_FACTOR, for kernels that are slow. */
struct ktap_test {
	const char *name;
	void (*run)(void);
	unsigned int seconds;
};

#define TEST_TIMEOUT(fn, limit)                                                                      \
	static void fn(void);                                                                        \
	static const struct ktap_test ktap_##fn                                                      \
		__attribute__((used, section("ktap_tests"), aligned(8))) = { #fn, fn, limit };       \
	static void fn(void)
#define TEST(fn) TEST_TIMEOUT(fn, 60)

/* Records a failure and continues. */
#define EXPECT(condition, ...)                                                                       \
	({                                                                                           \
		bool ok_ = (condition);                                                              \
		if (!ok_)                                                                            \
			ktap_failed(__FILE__, __LINE__, #condition, "" __VA_ARGS__);                 \
		ok_;                                                                                 \
	})
/* Records a failure and ends the test. */
#define ASSERT(condition, ...)                                                                       \
	do {                                                                                         \
		if (!EXPECT(condition, __VA_ARGS__))                                                 \
			ktap_end();                                                                  \
	} while (0)

/* For calls that return 0 or a negative errno, and for numbers. */
#define EXPECT_RET(call, wanted) ktap_expect_ret(__FILE__, __LINE__, #call, (call), (wanted))
#define ASSERT_RET(call, wanted)                                                                     \
	do {                                                                                         \
		if (!EXPECT_RET(call, wanted))                                                       \
			ktap_end();                                                                  \
	} while (0)
#define ASSERT_OK(call) ASSERT_RET(call, 0)
#define EXPECT_OK(call) EXPECT_RET(call, 0)
#define EXPECT_EQ(a, b) ktap_expect_eq(__FILE__, __LINE__, #a, (uint64_t)(a), #b, (uint64_t)(b))
#define ASSERT_EQ(a, b)                                                                              \
	do {                                                                                         \
		if (!EXPECT_EQ(a, b))                                                                \
			ktap_end();                                                                  \
	} while (0)

#define SKIP(...) ktap_skip(__VA_ARGS__)

/* The kernel's internal "not supported", which has no name in user space. */
#ifndef ENOTSUPP
#define ENOTSUPP 524
#endif

__attribute__((format(printf, 4, 5))) void ktap_failed(const char *file, int line, const char *what, const char *more, ...);
bool ktap_expect_ret(const char *file, int line, const char *call, long got, long wanted);
bool ktap_expect_eq(const char *file, int line, const char *a, uint64_t x, const char *b, uint64_t y);
__attribute__((noreturn)) void ktap_end(void);
__attribute__((noreturn, format(printf, 1, 2))) void ktap_skip(const char *reason, ...);
__attribute__((format(printf, 1, 2))) void ktap_note(const char *text, ...);
/*
 * Runs `fn` in a child process; its failures are failures of the test. Returns 0 if it has none,
 * regardless of earlier failures.
 */
int ktap_in_child(void (*fn)(void *), void *data);

/* Returns the number of failures so far. */
unsigned int ktap_failures(void);
/* Separates the failures of this process from those of the test: its exit status reports them. */
void ktap_detach(void);

/*
 * Returns $KTAP_TIME_FACTOR, or 1 if it is not set: the factor by which the kernel is slower than
 * the stock one.
 */
unsigned int ktap_time_factor(void);

/*
 * Returns the number of repetitions of an operation: $KTAP_REPEATS percent of `all`, by default all
 * of them, but at least `least`.
 */
unsigned int ktap_repeats(unsigned int all, unsigned int least);

/*
 * Returns whether the driver is rkfd, for results in which it deviates from the C driver: both are
 * expected exactly. Documentation/abi.rst names the deviation.
 */
bool ktap_is_rkfd(void);

/* Monotonic time in seconds. */
double seconds_now(void);
const char *ktap_errno_name(long ret);
int ktap_main(int argc, char **argv);

#endif
