/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Cases of a program that run in one process, because a process of HIP takes seconds to start, with
 * output in KTAP.
 */
#ifndef CASES_H
#define CASES_H

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#ifdef __cplusplus
extern "C" {
#endif

struct one_case {
	const char *name;
	void (*run)(void);
};

/* Notes a failure of the current case, with its reason. */
__attribute__((format(printf, 1, 2))) void case_failed(const char *text, ...);
/* Ends the program, as a call failed on which all further cases depend. */
__attribute__((noreturn)) void case_abort(const char *call, const char *error);
/* As case_abort(), unless the status of the call is 0. */
void case_check(int status, const char *call);
/*
 * Runs the cases of `program` that the arguments name, or all. A case that takes longer than
 * `seconds` ends the program. Returns the exit status.
 */
int cases_main(int argc, char **argv, const char *program, const struct one_case *cases, unsigned int count,
	       unsigned int seconds);

#ifdef __cplusplus
}
#endif

#endif
