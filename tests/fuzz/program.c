// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Generates programs and changes them at random. */
#include <string.h>

#include "../workloads/random.h"
#include "fuzz.h"

uint64_t seed;

const char *const symbols[SYMBOLS] = {
	[GPU] = "gpu",
	[PID] = "pid",
	[OTHER_PID] = "other",
	[CWSR_SIZE] = "cwsr",
	[CWSR_AREA] = "cwsr-area",
	[CTL_STACK] = "ctl-stack",
	[DOORBELLS] = "doorbells",
	[SOON] = "soon",
};

static const uint64_t sizes[] = { 0x1000, 0x2000, 0x4000, 0x8000, 0x10000, 0x20000, 0x200000,
				  0x400000, 0x1000000, 0, 1, 0xfff, 0x1001, 1ull << 40, 1ull << 63 };

uint64_t random64(void)
{
	return random_from(&seed);
}

unsigned int below(unsigned int n)
{
	return random_below(&seed, n);
}

static struct value random_address(void)
{
	struct value v = { .tag = MEM };

	/* Few addresses, so that calls meet; sometimes an offset in a page. */
	v.number = below(4) ? below(16) * ARENA_STEP : below(ARENA_SIZE / ARENA_STEP) * ARENA_STEP;
	switch (below(10)) {
	case 0:
		v.number += below(16) * 4096;
		break;
	case 1:
		v.number += below(512) * 8;
		break;
	default:
		break;
	}
	return v;
}

static struct value random_value(unsigned int call, unsigned int index)
{
	const struct place *p = place(call, index);
	const struct field *f = p->field;
	struct value v = { 0 };

	if (f->type != OUT && f->type != RES && !below(24)) {
		v.number = random_nasty(&seed);
		return v;
	}
	switch (f->type) {
	case ANY:
		v.number = below(2) ? below(8) : random_nasty(&seed);
		break;
	case ONE:
		v.number = f->choices[below(f->choices_count)];
		break;
	case FLAGS:
		for (unsigned int n = below(4); n; n--)
			v.number |= f->choices[below(f->choices_count)];
		break;
	case SIZE:
		if (!below(6)) {
			v.tag = SYM;
			v.number = CWSR_SIZE + below(3);
		} else {
			v.number = sizes[below(3) ? below(6) : below(sizeof(sizes) / 8)];
		}
		break;
	case ADDR:
		v = random_address();
		break;
	case COUNT:
		v.number = below(5);
		break;
	case GPU_ID:
		v.tag = SYM;
		v.number = GPU;
		break;
	case RES:
		v.tag = REG;
		v.number = below(3) ? 0 : below(REGISTERS);
		if (f->of == OFFSET && !below(4)) {
			v.tag = SYM;
			v.number = DOORBELLS;
		} else if (index && !below(20)) {
			v.tag = RAW;
			v.number = random_nasty(&seed);
		} else if (index && f->of >= BO && !below(3)) {
			/* None. */
			v.tag = RAW;
			v.number = 0;
		}
		break;
	case OUT:
		v.tag = REG;
		v.number = below(3) ? 0 : below(REGISTERS);
		break;
	case PTR:
		v.tag = BLOCK;
		v.number = f->of;
		/* An element of an array that is itself pointed to. */
		if (p->block_index)
			v.number = (below(3) ? f->of : f->of + below(MAX_BLOCKS - f->of)) |
				   (p->element << 8);
		if (!below(30))
			v = random_address();
		break;
	case MS:
		v.number = below(3) ? below(3) : below(30);
		break;
	case TIME:
		v.tag = below(2) ? SYM : RAW;
		v.number = v.tag == SYM ? SOON : 0;
		break;
	case PROCESS:
		v.tag = SYM;
		v.number = below(3) ? PID : OTHER_PID;
		break;
	default:
		break;
	}
	return v;
}

static unsigned int random_call(void)
{
	static unsigned int total;
	unsigned int n;

	if (!total)
		for (unsigned int i = 0; i < calls_count; i++)
			total += calls[i]->weight;
	n = below(total);
	for (unsigned int i = 0;; i++) {
		if (n < calls[i]->weight)
			return i;
		n -= calls[i]->weight;
	}
}

static void random_step(struct step *s, unsigned int call, unsigned int task)
{
	memset(s, 0, sizeof(*s));
	s->call = (uint16_t)call;
	s->task = (uint8_t)task;
	for (unsigned int i = 0; i < places_count(call); i++)
		s->values[i] = random_value(call, i);
}

static struct step *insert_step(struct program *p, unsigned int index)
{
	if (p->count == MAX_CALLS)
		return NULL;
	memmove(&p->steps[index + 1], &p->steps[index],
		(p->count - index) * sizeof(p->steps[0]));
	p->count++;
	return &p->steps[index];
}

void remove_step(struct program *p, unsigned int index)
{
	memmove(&p->steps[index], &p->steps[index + 1],
		(p->count - index - 1) * sizeof(p->steps[0]));
	p->count--;
}

/* A call on register 0 of all kinds. */
static void append_plain(struct program *p, const char *name)
{
	struct step *s = insert_step(p, p->count);
	int call = find_call(name);

	if (!s || call < 0)
		return;
	memset(s, 0, sizeof(*s));
	s->call = (uint16_t)call;
	for (unsigned int i = 0; i < places_count(s->call); i++) {
		const struct field *f = place(s->call, i)->field;

		if (f->type == RES || f->type == OUT)
			s->values[i].tag = REG;
		else if (f->type == GPU_ID)
			s->values[i] = (struct value){ .tag = SYM, .number = GPU };
	}
}

void generate(struct program *p)
{
	p->count = 0;
	append_plain(p, "open_kfd");
	append_plain(p, "open_render");
	if (below(16))
		append_plain(p, "acquire_vm");
	for (unsigned int n = 4 + below(20); n; n--)
		random_step(insert_step(p, p->count), random_call(), 0);
}

void generate_tests(struct program *p)
{
	/* All programs in turn, of which each time another test runs. */
	static unsigned int program, test;
	unsigned int tasks = below(3) ? 1 : 3;

	if (!test)
		test = 1 + below(1000);
	p->count = 0;
	if (!below(4))
		random_step(insert_step(p, p->count), (unsigned int)find_call("inject"), 0);
	for (unsigned int task = 0; task < tasks; task += 2) {
		struct step *s = insert_step(p, p->count);

		memset(s, 0, sizeof(*s));
		s->call = (uint16_t)find_call("test");
		s->task = (uint8_t)task;
		s->values[0].number = program++ % tests_count();
		if (program % tests_count() == 0)
			test++;
		s->values[1].number = test;
		s->values[2].number = below(1u << 16);
	}
}

static void change_value(struct program *p)
{
	struct step *s = &p->steps[below(p->count)];
	unsigned int count = places_count(s->call);

	for (unsigned int n = 1 + below(3); n && count; n--) {
		unsigned int i = below(count);
		struct value *v = &s->values[i];

		if (v->tag == RAW && !below(4) && place(s->call, i)->field->type != OUT) {
			/* Near the old number. */
			if (below(2))
				v->number += below(2) ? 1ull << below(33) : -(1ull << below(33));
			else
				v->number ^= 1ull << below(64);
		} else {
			*v = random_value(s->call, i);
		}
	}
}

/* Moves the calls from one on to other tasks. */
static void change_task(struct program *p)
{
	unsigned int from = below(p->count), to = from + 1 + below(p->count - from);
	unsigned int task = below(TASKS);

	for (unsigned int i = from; i < to; i++)
		p->steps[i].task = (uint8_t)(below(4) ? task : below(TASKS));
}

static void splice(struct program *p, const struct program *other)
{
	unsigned int from = below(other->count), at = below(p->count + 1);
	unsigned int n = 1 + below(other->count - from);

	for (unsigned int i = 0; i < n; i++) {
		struct step *s = insert_step(p, at + i);

		if (!s)
			return;
		*s = other->steps[from + i];
	}
}

static void duplicate(struct program *p)
{
	unsigned int from = below(p->count), at = below(p->count + 1);
	struct step copy = p->steps[from];
	struct step *s = insert_step(p, at);

	if (s)
		*s = copy;
}

static void swap(struct program *p)
{
	unsigned int a = below(p->count), b = below(p->count);
	struct step s = p->steps[a];

	p->steps[a] = p->steps[b];
	p->steps[b] = s;
}

void mutate(struct program *p, const struct program *other)
{
	for (unsigned int n = 1 + below(5); n; n--) {
		unsigned int what = below(100);
		struct step *s;

		if (what < 35 && p->count) {
			change_value(p);
		} else if (what < 70) {
			unsigned int at = below(p->count + 1);
			/* On the task of the call before. */
			unsigned int task = at ? p->steps[at - 1].task : 0;

			s = insert_step(p, at);
			if (s)
				random_step(s, random_call(), task);
		} else if (what < 78 && p->count > 1) {
			remove_step(p, below(p->count));
		} else if (what < 86 && other->count) {
			splice(p, other);
		} else if (what < 92 && p->count) {
			duplicate(p);
		} else if (what < 95 && p->count) {
			swap(p);
		} else if (p->count) {
			change_task(p);
		}
	}
}
