/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A coverage-guided fuzzer for /dev/kfd and the render node.
 *
 * A program is a list of calls (ioctls and other system calls) with typed arguments. Calls pass
 * objects to each other through registers, REGISTERS of each kind and process: an OUT field stores
 * a result in a register, a RES field reads it. Calls run on one of four tasks: two threads of a
 * process, and two of a child of it.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "../workloads/cover.h"
#include "../workloads/kfd.h"

#define MAX_CALLS 40
#define MAX_VALUES 112
#define MAX_BLOCKS 8
#define REGISTERS 8
#define TASKS 4
#define TEXT_MAX (64u << 10)

/* Memory of a program, the same addresses for CPU and GPU. */
#define ARENA 0x100000000000ull
#define ARENA_SIZE (64ull << 20)
/* Distance of the addresses that programs mostly use, so that calls meet. */
#define ARENA_STEP (1ull << 16)

/* Kinds of objects in registers. */
enum kind { KFD_FILE, DRM_FILE, OTHER_FILE, BO, QUEUE, EVENT, OFFSET, GEM, CTX, LIST, SYNCOBJ, FENCE, USERQ, KINDS };

/* What the number of a value means. */
enum tag {
	RAW,
	/* Offset in the arena. */
	MEM,
	/* A register of the field's kind. */
	REG,
	/* Address of a block of this call. */
	BLOCK,
	/* enum symbol. */
	SYM,
};

/* Numbers that depend on the GPU or the process. */
enum symbol { GPU, PID, OTHER_PID, CWSR_SIZE, CWSR_AREA, CTL_STACK, DOORBELLS, SOON, SYMBOLS };

struct value {
	uint64_t number;
	uint8_t tag;
};

enum type {
	/* Any number. */
	ANY,
	/* One of the choices. */
	ONE,
	/* An OR of the choices. */
	FLAGS,
	/* A size in bytes; large ones are limited so that the machine has memory left. */
	SIZE,
	/* An address. */
	ADDR,
	/* Number of elements of a block. */
	COUNT,
	GPU_ID,
	/* A register of kind `of`. */
	RES,
	/* Stored in a register of kind `of` after the call. */
	OUT,
	/* The address of block `of` of this call. */
	PTR,
	/* A short time in ms; an absolute time in ns. */
	MS,
	TIME,
	/* A process id. */
	PROCESS,
};

struct field {
	const char *name;
	uint16_t offset;
	uint8_t size, type, of, choices_count;
	const uint64_t *choices;
};

/* Memory passed to a call: `count` elements of `size` bytes. Block 0 is the argument. */
struct block {
	const char *name;
	const struct field *fields;
	uint8_t fields_count, count;
	uint16_t size;
};

/* One of the tasks that run a program. */
struct task {
	unsigned int index;
	/* The registers of its process, and the other process, 0 before it starts. */
	uint64_t (*registers)[REGISTERS];
	pid_t other;
	/* Memory of the blocks of a call. */
	unsigned char *memory;
	struct trace *trace;
	/* The step that runs. */
	unsigned int step;
	/* Number of the allocation of the next call that fails, 0 for none. */
	unsigned int failing;
	/* Where a fault of a load or store leads. */
	sigjmp_buf fault;
	volatile sig_atomic_t may_fault;
	/* The process ends without closing its files. */
	bool leaves;
};

struct call {
	const char *name;
	/* The kind of the file of an ioctl, in the register of value 0. */
	enum kind file;
	unsigned long request;
	/* How often the call is chosen, relative to 10. */
	unsigned int weight;
	/* System calls that are not ioctls: the numbers of block 0 in order. */
	long (*run)(struct task *task, const uint64_t *args);
	struct block blocks[MAX_BLOCKS];
};

/* The place of a value in the memory of a call. Value 0 of an ioctl is its file. */
struct place {
	const struct block *block;
	const struct field *field;
	uint8_t block_index, element;
};

struct step {
	uint16_t call;
	uint8_t task;
	struct value values[MAX_VALUES];
};

struct program {
	unsigned int count;
	struct step steps[MAX_CALLS];
};

/* calls.c */
extern const struct call *calls[];
extern unsigned int calls_count;
void calls_init(void);
unsigned int places_count(unsigned int call);
const struct place *place(unsigned int call, unsigned int value);
int find_call(const char *name);

/* calls-kfd.c, calls-drm.c, calls-sys.c: end with an entry without a name */
extern const struct call kfd_calls[], drm_calls[], sys_calls[];

/* program.c */
uint64_t random64(void);
/* A number below `n`. */
unsigned int below(unsigned int n);
extern uint64_t seed;
extern const char *const symbols[SYMBOLS];
void generate(struct program *p);
/* One or two tests, which run at the same time, and perhaps a fault before them. */
void generate_tests(struct program *p);
void mutate(struct program *p, const struct program *other);
void remove_step(struct program *p, unsigned int index);

/* calls-sys.c: finds the files that programs read. */
void files_init(void);

/* fail.c */
/* Sets up the kernel's fault injection, by which allocations of single calls fail. */
void fail_init(void);
/* The call that selects an allocation of the next one. */
long run_fail(struct task *task, const uint64_t *args);

/* inject.c */
/* Opens the control socket of the GPU model if there is one. */
void inject_init(void);
/* Ends the faults that a program has injected. */
void inject_end(const struct program *p);
/* The call that injects a fault. */
long run_inject(struct task *task, const uint64_t *args);

/* test.c */
/* The call that runs a test of tests/kselftest. */
long run_test(struct task *task, const uint64_t *args);
/* The number of programs with tests. */
unsigned int tests_count(void);
/* Whether the program has such a call, and takes longer therefore. */
bool has_test(const struct program *p);

/* text.c */
size_t program_print(const struct program *p, char *text, size_t size);
/* Returns the number of characters up to an empty line; 0 at the end, -1 if `text` is wrong. */
long program_parse(struct program *p, const char *text);

/* execute.c */
struct result {
	/* Calls that ended, and those that succeeded. */
	unsigned int done, succeeded;
	/* The program ran into the time limit. */
	bool late;
	/* A task did not end after SIGKILL. */
	bool hung;
};
void execute_init(void);
void execute(const struct program *p, struct result *result);

/* watch.c */
/* Reads the kernel's log; returns whether it has a new error report, which is printed. */
bool log_has_report(void);
/* Remembers what is in use; checks that no more is in use; prints the difference. */
void ledger_start(void);
bool ledger_is_started(void);
bool ledger_is_clean(void);

#endif
