# SPDX-License-Identifier: GPL-2.0
#
# User commands; `make help` lists them. The work is done by Kbuild (the module) and by scripts/.

KDIR ?= /lib/modules/$(shell uname -r)/build
S := $(CURDIR)/scripts
export WORKLOAD ROOT ONLY
MINUTES ?= 10

# The version of the module, also that of dkms.conf.
VERSION := $(shell sed -n 's/^MODULE_VERSION("\(.*\)");/\1/p' rust/c/helpers.c)
DKMS := $(DESTDIR)/usr/src/rkfd-$(VERSION)
DOCDIR ?= /usr/share/doc/rkfd

.PHONY: all modules install install-dkms deb clean help setup demo check vm lint fmt doc bench compare coverage mutants fuzz

all: modules

modules: ## build rkfd.ko against KDIR (default: the running kernel), as any out-of-tree module
	@"$(S)/check-kdir" "$(KDIR)"
	+@$(MAKE) -C "$(KDIR)" M="$(CURDIR)" modules

install: modules ## install rkfd.ko below DESTDIR for the kernel of KDIR, run depmod; with an example for modprobe.d
	+@$(MAKE) -C "$(KDIR)" M="$(CURDIR)" INSTALL_MOD_PATH="$(DESTDIR)" INSTALL_MOD_DIR=updates modules_install
	@depmod -b "$(DESTDIR)/" "$$(cat "$(KDIR)/include/config/kernel.release")"
	@install -D -m 644 packaging/rkfd.conf "$(DESTDIR)$(DOCDIR)/examples/rkfd.conf"

install-dkms: ## install the sources for DKMS below DESTDIR
	@rm -rf "$(DKMS)" && mkdir -p "$(DKMS)"
	@tar -c --exclude='*.o' --exclude='*.ko' --exclude='*.cmd' --exclude='*.d' --exclude='*.mod*' --exclude='*.rmeta' \
		--exclude='*_generated.rs' Kbuild rust uapi COPYING LICENSES dkms.conf scripts/dkms scripts/kernel-tree.sh | \
		tar -x -C "$(DKMS)"
	@install -D -m 644 packaging/rkfd.conf "$(DESTDIR)$(DOCDIR)/examples/rkfd.conf"

deb: ## build the Debian source package and the packages rkfd-dkms and rkfd-vm, in build/deb
	@"$(S)/deb"

clean: ## remove build products from this folder (the cache stays)
	@"$(S)/clean"

setup: ## create or complete the cache: build root, kernel tree, firmware, the guest's Debian roots
	@"$(S)/setup" --all

demo: ## boot the stock kernel with the GPU model, load rkfd, launch a vector add, show each step and draw it
	@"$(S)/demo"

check: ## run the tests of each change (LONG=1: all); the last line is `N passed, N failed, N skipped`
	@"$(S)/check"

vm: ## start a shell in the VM with rkfd loaded, in a Debian root with ROCm (rocminfo, hipcc)
	@"$(S)/shell"

lint: ## run the static checks: clippy, rustfmt, layers, locks, registers, columns, versions, outcomes, shell, Sphinx
	@"$(S)/lint"

fmt: ## format all Rust code
	@"$(S)/fmt"

doc: ## build the documentation: Documentation/ as HTML, rustdoc of the module and of the host crates
	@"$(S)/doc"

bench: ## count guest instructions of ioctls, launches, preemptions and jobs; measure copies and the shader interpreter
	@"$(S)/bench"

compare: ## compare rkfd and the stock driver on the same model and workload: topology, packets, MQDs, page tables, cost
	@"$(S)/compare"

coverage: ## run the boots of `make check` with a module that records its coverage, and print the covered blocks
	@"$(S)/coverage"

mutants: ## build the driver with one defect at a time, and count those that the tests find (2 h; ONLY=FAMILY)
	@"$(S)/mutants"

fuzz: ## fuzz the ioctls for MINUTES (10), guided by coverage, on the debug kernel
	@"$(S)/fuzz" $(MINUTES)

help: ## print this list
	@sed -n 's/^\([a-z-]*\): .*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22
	@echo
	@echo "  KDIR=dir        kernel tree for 'make', with its Rust crates ('scripts/setup --where' prints the path of one)"
	@echo "  WORKLOAD=svm    a retry fault in anonymous memory in 'make demo' (not on rx9070)"
	@echo "  WORKLOAD=hip    launch with HIP and unmodified ROCm in 'make demo'; gdb: debug a HIP program with GDB, which is built at"
	@echo "                  its first use (15 minutes); tinygrad: tokens of a transformer with tinygrad, and what each takes"
	@echo "  ROOT=trixie     Debian release of the ROCm in 'make vm' and 'make demo WORKLOAD=hip': forky (default), trixie, rocm7 (forky"
	@echo "                  with ROCm 7.2), libraries (the same with rocBLAS and others), library-tests (with test programs of"
	@echo "                  libraries), ggml (forky with ggml) or gdb (forky with GDB); in 'make vm' also none: without ROCm,"
	@echo "                  tinygrad: with tinygrad, podman: with podman"
	@echo "  CHIP=mi300x     chip of the GPU model: mi300x, mi300x-1xcc (one XCC), mi308x, mi325x, rx9070; without it 'make check'"
	@echo "                  tests the boots of all, 'make bench' four chips, and 'make compare' and 'make fuzz' use mi300x-1xcc"
	@echo "  LONG=1          all tests in 'make check', and all boots in 'make coverage'"
	@echo "  VMS=n           number of VMs at a time in 'make check' and 'make mutants'"
	@echo "  QUICK=1         'make compare' without costs, with a queue that cannot be preempted; SYSFS=1: files in sysfs only;"
	@echo "                  DRIVERS=rkfd: one driver"
	@echo "  RESUME=1        'make mutants' continues an interrupted run"
	@echo "  DRIVER=amdgpu   load the stock driver instead of rkfd in 'make check' and 'make vm'"
	@echo "  KERNEL=debug    boot a kernel with lockdep, kmemleak and more; built at its first use (10 to 30 minutes); kasan: one"
	@echo "                  with KASAN, faster, without these"
	@echo "  GPU_SOCKET=path use this vfio-user device instead of the GPU model"
	@echo "  RKFD_CACHE=dir  folder of downloads and slow products (default ~/.cache/rkfd)"
