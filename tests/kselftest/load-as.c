// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * usage: load-as FILE NAME    loads the kernel module in FILE under another name
 *
 * For tests of a module whose name is taken. Drops the signature, which would not match.
 */

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Offset of `name` in struct module: behind the state and the list. */
#define NAME_AT 24
#define NAME_LEN 56

static const char MAGIC[] = "~Module signature appended~\n";

/* Size of the module without its signature. */
static size_t without_signature(const unsigned char *file, size_t size)
{
	const size_t magic = sizeof(MAGIC) - 1, info = 12;

	if (size < magic + info || memcmp(file + size - magic, MAGIC, magic))
		return size;
	const unsigned char *len = file + size - magic - 4;
	size_t signature = (size_t)len[0] << 24 | len[1] << 16 | len[2] << 8 | len[3];

	return size - magic - info - signature;
}

/* Offset of the module name in its file. */
static char *name_of(unsigned char *file)
{
	const Elf64_Ehdr *elf = (const void *)file;
	const Elf64_Shdr *sections = (const void *)(file + elf->e_shoff);
	const char *names = (const char *)file + sections[elf->e_shstrndx].sh_offset;

	for (int i = 0; i < elf->e_shnum; i++) {
		if (!strcmp(names + sections[i].sh_name, ".gnu.linkonce.this_module"))
			return (char *)file + sections[i].sh_offset + NAME_AT;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct stat st;
	int fd = argc == 3 ? open(argv[1], O_RDONLY) : -1;

	if (fd < 0 || fstat(fd, &st) || strlen(argv[2]) >= NAME_LEN) {
		fprintf(stderr, "usage: load-as FILE NAME\n");
		return 2;
	}
	unsigned char *file = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	if (file == MAP_FAILED || memcmp(file, ELFMAG, SELFMAG)) {
		fprintf(stderr, "load-as: %s is not a module\n", argv[1]);
		return 2;
	}
	char *name = name_of(file);

	if (!name) {
		fprintf(stderr, "load-as: %s has no name\n", argv[1]);
		return 2;
	}
	memset(name, 0, NAME_LEN);
	memcpy(name, argv[2], strlen(argv[2]));
	if (syscall(SYS_init_module, file, without_signature(file, st.st_size), "")) {
		printf("load-as: %s as %s: %s\n", argv[1], argv[2], strerror(errno));
		return 1;
	}
	return 0;
}
