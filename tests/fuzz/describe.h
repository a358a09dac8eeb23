/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Macros for the descriptions of calls. */
#ifndef DESCRIBE_H
#define DESCRIBE_H

#include "fuzz.h"

#define COUNT_OF(a) ((uint8_t)(sizeof(a) / sizeof((a)[0])))
#define MEMBER_SIZE(s, m) sizeof(((s *)0)->m)
/* A member `m` of struct `s`, called `n` in programs. */
#define NAMED(s, n, m, ...) { .name = n, .offset = offsetof(s, m), .size = MEMBER_SIZE(s, m), __VA_ARGS__ }
#define FIELD(s, m, t) NAMED(s, #m, m, .type = t)
#define CHOICES(s, m, t, ...)                                                      \
	NAMED(s, #m, m, .type = t, .choices = (const uint64_t[]){ __VA_ARGS__ },   \
	      .choices_count = COUNT_OF(((const uint64_t[]){ __VA_ARGS__ })))
#define READS(s, m, k) NAMED(s, #m, m, .type = RES, .of = k)
#define STORES(s, m, k) NAMED(s, #m, m, .type = OUT, .of = k)
#define POINTS(s, m, b) NAMED(s, #m, m, .type = PTR, .of = b)
/* An element that is one number. */
#define NUMBER(n, bytes, ...) { .name = n, .size = bytes, __VA_ARGS__ }
#define FIELDS(...)                                              \
	.fields = (const struct field[]){ __VA_ARGS__ },         \
	.fields_count = COUNT_OF(((const struct field[]){ __VA_ARGS__ }))
#define ARGS(s, ...) { .name = "args", .count = 1, .size = sizeof(s), FIELDS(__VA_ARGS__) }
#define ARRAY(n, elements, bytes, ...) { .name = n, .count = elements, .size = bytes, FIELDS(__VA_ARGS__) }

#endif
