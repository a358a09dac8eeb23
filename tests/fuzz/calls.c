// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The list of all calls, and the places of their values. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define MAX_DESCRIBED 160

const struct call *calls[MAX_DESCRIBED];
unsigned int calls_count;

static struct place *places[MAX_DESCRIBED];
static unsigned int counts[MAX_DESCRIBED];

/* The file of an ioctl, by kind. */
static const struct field file_fields[KINDS] = {
	[KFD_FILE] = { .name = "file", .type = RES, .of = KFD_FILE },
	[DRM_FILE] = { .name = "file", .type = RES, .of = DRM_FILE },
};
static const struct block file_block = { .name = "file", .count = 1 };

static void add_places(unsigned int index)
{
	const struct call *call = calls[index];
	struct place *p = calloc(MAX_VALUES, sizeof(*p));
	unsigned int n = 0;

	if (!p)
		abort();
	if (!call->run)
		p[n++] = (struct place){ .block = &file_block, .field = &file_fields[call->file] };
	for (uint8_t b = 0; b < MAX_BLOCKS && call->blocks[b].count; b++) {
		const struct block *block = &call->blocks[b];

		for (uint8_t e = 0; e < block->count; e++) {
			for (unsigned int f = 0; f < block->fields_count; f++) {
				if (n == MAX_VALUES)
					abort();
				p[n++] = (struct place){ .block = block,
							 .field = &block->fields[f],
							 .block_index = b,
							 .element = e };
			}
		}
	}
	places[index] = p;
	counts[index] = n;
}

void calls_init(void)
{
	const struct call *const lists[] = { kfd_calls, drm_calls, sys_calls };

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		for (const struct call *call = lists[i]; call->name; call++) {
			if (calls_count == MAX_DESCRIBED)
				abort();
			calls[calls_count] = call;
			add_places(calls_count++);
		}
	}
}

unsigned int places_count(unsigned int call)
{
	return counts[call];
}

const struct place *place(unsigned int call, unsigned int value)
{
	return &places[call][value];
}

int find_call(const char *name)
{
	for (unsigned int i = 0; i < calls_count; i++)
		if (!strcmp(calls[i]->name, name))
			return (int)i;
	return -1;
}
