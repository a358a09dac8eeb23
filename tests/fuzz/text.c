// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Programs as text: `TASK NAME FIELD=VALUE...` per call. Fields that are 0 are left out. A value is
 * a number, @OFFSET in the arena, $REGISTER, &BLOCK or &BLOCK.ELEMENT, or %SYMBOL. Fields of an
 * element are ARRAY.INDEX.FIELD. A line that begins with a blank continues the one before; `#`
 * begins a comment line; an empty line ends a program.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define COLUMNS 100

static void place_name(char *name, size_t size, unsigned int call, unsigned int index)
{
	const struct place *p = place(call, index);

	if (p->block_index)
		snprintf(name, size, "%s.%u.%s", p->block->name, p->element, p->field->name);
	else
		snprintf(name, size, "%s", p->field->name);
}

static void value_text(char *text, size_t size, unsigned int call, struct value v)
{
	unsigned long long n = v.number;

	switch (v.tag) {
	case MEM:
		snprintf(text, size, "@%#llx", n);
		break;
	case REG:
		snprintf(text, size, "$%llu", n);
		break;
	case BLOCK:
		snprintf(text, size, "&%s.%llu", calls[call]->blocks[n & (MAX_BLOCKS - 1)].name ?: "none",
			 n >> 8);
		break;
	case SYM:
		snprintf(text, size, "%%%s", symbols[n % SYMBOLS]);
		break;
	default:
		snprintf(text, size, n < 10 ? "%llu" : "%#llx", n);
		break;
	}
}

struct writer {
	char *text;
	size_t size, used, column;
};

static void put(struct writer *w, const char *word)
{
	size_t length = strlen(word);

	if (w->used + length + 4 > w->size)
		return;
	if (w->column && w->column + 1 + length > COLUMNS) {
		w->text[w->used++] = '\n';
		w->column = 0;
		w->text[w->used++] = ' ';
		w->column++;
	} else if (w->column) {
		w->text[w->used++] = ' ';
		w->column++;
	}
	memcpy(w->text + w->used, word, length);
	w->used += length;
	w->column += length;
}

size_t program_print(const struct program *p, char *text, size_t size)
{
	struct writer w = { .text = text, .size = size };

	for (unsigned int i = 0; i < p->count; i++) {
		const struct step *s = &p->steps[i];
		char word[160], name[64], value[80];

		w.column = 0;
		snprintf(word, sizeof(word), "%u", s->task);
		put(&w, word);
		put(&w, calls[s->call]->name);
		for (unsigned int n = 0; n < places_count(s->call); n++) {
			struct value v = s->values[n];
			bool is_result = place(s->call, n)->field->type == OUT;

			/* What is left out reads as 0; results and the file as register 0. */
			if (!v.number && (v.tag == RAW || (v.tag == REG && (is_result || !n))))
				continue;
			place_name(name, sizeof(name), s->call, n);
			value_text(value, sizeof(value), s->call, v);
			snprintf(word, sizeof(word), "%s=%s", name, value);
			put(&w, word);
		}
		if (w.used < w.size)
			w.text[w.used++] = '\n';
	}
	w.text[w.used < w.size ? w.used : w.size - 1] = 0;
	return w.used;
}

static bool parse_value(unsigned int call, const char *text, struct value *v)
{
	char *end;

	v->tag = RAW;
	if (*text == '%') {
		v->tag = SYM;
		for (unsigned int i = 0; i < SYMBOLS; i++) {
			v->number = i;
			if (!strcmp(symbols[i], text + 1))
				return true;
		}
		return false;
	}
	if (*text == '&') {
		const char *dot = strchr(text, '.');
		size_t length = dot ? (size_t)(dot - text - 1) : strlen(text + 1);

		v->tag = BLOCK;
		for (unsigned int b = 0; b < MAX_BLOCKS; b++) {
			const char *name = calls[call]->blocks[b].name ?: "none";

			v->number = b | (dot ? strtoull(dot + 1, NULL, 0) << 8 : 0);
			if (strlen(name) == length && !memcmp(name, text + 1, length))
				return true;
		}
		return false;
	}
	if (*text == '@' || *text == '$')
		v->tag = *text++ == '@' ? MEM : REG;
	v->number = strtoull(text, &end, 0);
	return end != text && !*end;
}

static bool parse_field(struct step *s, char *word)
{
	char *equals = strchr(word, '=');
	char name[64];

	if (!equals)
		return false;
	*equals = 0;
	for (unsigned int n = 0; n < places_count(s->call); n++) {
		place_name(name, sizeof(name), s->call, n);
		if (!strcmp(name, word))
			return parse_value(s->call, equals + 1, &s->values[n]);
	}
	return false;
}

static bool parse_word(struct program *p, char *word, unsigned int position)
{
	struct step *s = &p->steps[p->count - 1];
	int call;

	switch (position) {
	case 0:
		s->task = (uint8_t)(atoi(word) % TASKS);
		return true;
	case 1:
		call = find_call(word);
		if (call < 0)
			return false;
		s->call = (uint16_t)call;
		for (unsigned int n = 0; n < places_count(s->call); n++)
			if (place(s->call, n)->field->type == OUT || (!n && !calls[call]->run))
				s->values[n].tag = REG;
		return true;
	default:
		return parse_field(s, word);
	}
}

long program_parse(struct program *p, const char *text)
{
	const char *at = text;
	unsigned int position = 0;

	p->count = 0;
	while (*at) {
		const char *end = strchr(at, '\n') ?: at + strlen(at);
		bool is_empty = end == at;

		if (is_empty && p->count)
			break;
		if (!is_empty && *at != '#') {
			if (*at != ' ') {
				if (p->count == MAX_CALLS)
					return -1;
				memset(&p->steps[p->count++], 0, sizeof(p->steps[0]));
				position = 0;
			}
			while (at < end) {
				char word[160];
				size_t length;

				at += strspn(at, " ");
				length = strcspn(at, " \n");
				if (!length)
					break;
				if (length >= sizeof(word) || !p->count)
					return -1;
				memcpy(word, at, length);
				word[length] = 0;
				if (!parse_word(p, word, position++))
					return -1;
				at += length;
			}
		}
		at = *end ? end + 1 : end;
	}
	return p->count ? at - text : 0;
}
