# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by all scripts: paths, progress display, error messages. Sourced, never run; the scripts
# that source it use variables that are unused here.
# shellcheck disable=SC2034

set -euo pipefail
unset CDPATH

RKFD_SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
RKFD_CACHE=$(realpath -m "${RKFD_CACHE:-${HOME:-/root}/.cache/rkfd}")
# A checkout has its products in build/. Other trees are those of the package rkfd-vm: without git,
# and read-only.
if [ -e "$RKFD_SRC/.git" ]; then RKFD_CHECKOUT=1; else RKFD_CHECKOUT=; fi
if [ -n "$RKFD_CHECKOUT" ]; then RKFD_OUT=${RKFD_OUT:-$RKFD_SRC/build}; else RKFD_OUT=${RKFD_OUT:-$RKFD_CACHE/out}; fi
RKFD_OUT=$(realpath -m "$RKFD_OUT")
# Target folder of cargo. Clones share one and take turns; each git worktree has its own.
if [ -f "$RKFD_SRC/.git" ]; then
	CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$RKFD_CACHE/target-$(basename "$RKFD_SRC")}
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$RKFD_CACHE/target}
# An interrupted compiler can leave incremental state that does not link: CI does without it.
if [ -n "${CI-}" ]; then export CARGO_INCREMENTAL=0; fi
# The kernel series that is built and booted, and where Debian keeps it.
RKFD_SERIES=7.3
RKFD_SUITE=trixie
export RKFD_SRC RKFD_CHECKOUT RKFD_CACHE RKFD_OUT RKFD_SERIES

# Packages of the build root. Changing either list makes a new root beside the old one.
ROOT_PACKAGES="bc bindgen bison busybox-static ca-certificates cargo clang-19 cpio dwarves erofs-utils flex gcc gcc-14
kmod libc6-dev libelf-dev libclang-dev libdrm-dev libssl-dev lld-19 llvm-19 make pahole python3 rust-clippy
python3-sphinx rust-src rustc rustfmt shellcheck strace xz-utils zstd libhsa-runtime-dev"
ROOT_BACKPORTS="linux-libc-dev qemu-system-x86"

# The newest Debian release whose unmodified ROCm is run in the guest, the guest roots of each
# change, and the packages there.
GUEST_SUITE=forky
GUEST_ROOTS="forky rocm7"
GUEST_PACKAGES="busybox-static file gcc hipcc kmod libamdhip64-dev libc6-dev libdrm-dev libhsa-runtime-dev libhsa-runtime64-1
make procps rocminfo strace"

# Tools for administrators, installed in both releases: amd-smi 6.1 and 10.1, rocm-smi 6.1 and 6.4.
SMI_PACKAGES="amd-smi rocm-smi"

# AMD's debugger library, installed in the newest release. It is in none of them with support for
# gfx942, hence from Debian's unstable release; all else comes from the release itself.
GUEST_UNSTABLE="amd-dbgapi-dev librocm-dbgapi0"

# A number, to be changed with the options of mmdebstrap and the steps of make_guest, make_gdb,
# make_tinygrad, make_browser and make_package_root in scripts/setup.
ROOTS_REVISION=

# Further guest roots, created only when they are named. `trixie` is the release before, with the
# same packages. `gdb` is the newest release with GDB, which is built there: Debian's packages of it
# lack AMD's debugger library. Its packages: source, compilers and libraries of GDB. Changing them
# or the options makes a new root beside the old one.
EXTRA_ROOTS="trixie gdb tinygrad libraries library-tests ggml podman"
GDB_PACKAGES="bison flex g++ gdb-source libgmp-dev libmpfr-dev libncurses-dev pkgconf python3 xz-utils zlib1g-dev"
GDB_OPTIONS="--prefix=/usr --enable-targets=amdgcn-amd-amdhsa --with-amd-dbgapi --disable-binutils --disable-gas
--disable-gdbserver --disable-gprof --disable-gprofng --disable-inprocess-agent --disable-ld --disable-libctf --disable-nls
--disable-sim --disable-source-highlight --disable-tui --disable-unit-tests --without-babeltrace --without-debuginfod
--without-expat --without-guile --without-intel-pt --without-lzma --without-python --without-xxhash --without-zstd"

# `tinygrad` is the newest release with the compiler libraries of ROCm and LLVM, without ROCm's
# runtimes, and with the unmodified wheel of tinygrad from PyPI. Its CPU backend needs clang.
TINYGRAD_PACKAGES="clang libamd-comgr3 make procps python3 strace"
TINYGRAD_VERSION=0.14.0
TINYGRAD_SHA256=d2a5bea33c637fdf105963632329876b3d3253d38295ac1ffd2ff81646d93be3

# `rocm7` is the newest release with ROCm 7.2 of Debian's suite experimental, whose packages are not
# installed by default: the source packages taken from there. `libraries` is that root with
# libraries and OpenCL: the further sources and packages. Of rocBLAS only the code objects for the
# GPU models are installed.
ROCM7_SOURCES="rocr-runtime rocm-hipamd rocm-llvm rocdbgapi rocm-smi-lib roctracer"
LIBRARY_SOURCES="rocblas rocrand rocprim hipcub rocthrust rocfft rocsparse hipblas-common hipblaslt"
LIBRARY_PACKAGES="librocblas-dev librocrand-dev librocprim-dev libhipcub-dev librocthrust-dev librocfft-dev
librocsparse-dev libhipblas-common-dev libhipblaslt-dev ocl-icd-opencl-dev rocm-opencl-icd clpeak python3-pyopencl"
LIBRARY_ISAS="gfx942 gfx1201"

# `library-tests` is `rocm7` with test programs of libraries: the packages, and the further source
# package. Only the programs that tests/rocm/library-tests.list names are installed.
LIBRARY_TEST_SOURCES="rocwmma"
LIBRARY_TEST_PACKAGES="libhipcub-tests librocfft0-tests librocprim-tests librocrand1-tests librocthrust-tests
librocwmma-tests-validate"

# `ggml` is the newest release with the HIP backend of ggml, whose kernels are for older GPUs, and
# the tests of its operators. Of rocBLAS only the code objects for that GPU are installed.
GGML_PACKAGES="libggml0-backend-hip llama.cpp-tests"
GGML_ISAS="gfx90a"

# `podman` is the newest release with podman, which runs containers of that root's own files.
PODMAN_PACKAGES="crun podman"

# Packages of the browser root, in which the picture of `make demo` is opened; created only for that
# test.
BROWSER_PACKAGES="chromium fonts-dejavu-core"

# GPU firmware for the guest's driver: Debian's package, and the files of it that are kept
# (amdgpu/NAME).
FIRMWARE_PACKAGE=firmware-amd-graphics
FIRMWARE_FILES="gc_9_4_3_mec.bin gc_9_4_3_rlc.bin psp_13_0_6_sos.bin psp_13_0_6_ta.bin sdma_4_4_2.bin smu_13_0_6.bin
gc_12_0_1_imu.bin gc_12_0_1_me.bin gc_12_0_1_mec.bin gc_12_0_1_pfp.bin gc_12_0_1_rlc.bin gc_12_0_1_uni_mes.bin
psp_14_0_3_sos.bin psp_14_0_3_ta.bin sdma_7_0_1.bin smu_14_0_3.bin"

# die MESSAGE...: exits with one line that names the problem and the remedy.
die() {
	printf 'rkfd: %s\n' "$*" >&2
	exit 1
}

note() { printf 'rkfd: %s\n' "$*" >&2; }

# Neither make nor Kbuild builds in such a folder.
case $RKFD_SRC:$RKFD_CACHE:$RKFD_OUT in
*[[:space:]]*) die "$RKFD_SRC, $RKFD_CACHE and $RKFD_OUT: paths must not contain spaces" ;;
esac

in_root() { "$RKFD_SRC/scripts/in-root" "$@"; }

# no_arguments NOTE "$@": checks the arguments of a script that takes none, and prints its usage.
no_arguments() {
	local usage="usage: scripts/${0##*/}     (no arguments${1:+; $1})"
	shift
	[ $# -gt 0 ] || return 0
	case $1 in
	-h | --help) echo "$usage"; exit 0 ;;
	*) echo "$usage" >&2; exit 2 ;;
	esac
}

# Chips of the GPU model.
CHIPS="mi300x mi300x-1xcc mi308x mi325x rx9070"
case " $CHIPS " in *" ${CHIP:-mi300x} "*) ;; *) die "unknown chip CHIP=$CHIP: use one of $CHIPS" ;; esac

# Kernels that a VM can boot: Debian's, or one built from the same source with
# tests/vm/debug.config, or with KASAN (tests/vm/kasan.config).
KERNELS="stock debug kasan"
KERNEL=${KERNEL:-stock}
# File of a snapshot with the machine's state. The memory of the other kernels is not zero
# (page_poison=1).
SNAPSHOT_STATE=state.zst
[ "$KERNEL" != stock ] || SNAPSHOT_STATE=state
case " $KERNELS " in *" $KERNEL "*) ;; *) die "unknown kernel KERNEL=$KERNEL: use one of $KERNELS" ;; esac
export KERNEL
# Factor for all time limits, and the seconds in which a guest must have started its init.
TIME_FACTOR=1 START_SECONDS=150
[ "$KERNEL" = stock ] || TIME_FACTOR=8 START_SECONDS=600

root_key() {
	printf '%s\n' "$RKFD_SUITE" $ROOT_PACKAGES $ROOT_BACKPORTS | sha256sum | cut -c1-12
}
RKFD_ROOT=$RKFD_CACHE/root-$(root_key)
export RKFD_ROOT

# source_files PATH...: prints the files below PATH, without products of a checkout, each followed
# by a NUL byte.
source_files() {
	if [ -n "$RKFD_CHECKOUT" ]; then
		git ls-files -z --cached --others --exclude-standard -- "$@" || die "git does not read the checkout $RKFD_SRC"
	else
		find "$@" -type f -print0
	fi
}
# Waits until no other command of the checkout builds; the lock lasts as long as the script.
lock_build() {
	mkdir -p "$RKFD_OUT"
	exec 6>"$RKFD_OUT/build.lock"
	flock -n 6 || { note "waiting for another build in $RKFD_OUT"; flock 6; }
}
# source_sums PATH...: prints hash and name of each file below these paths of the checkout. One that
# is deleted in the checkout only has none.
source_sums() {
	cd "$RKFD_SRC" && source_files "$@" | { xargs -0r sha256sum 2>/dev/null || true; } | LC_ALL=C sort -u
}
# update_copy FOLDER PATH...: makes the files of FOLDER those below these paths of the checkout.
# Make, Kbuild and cargo compare times: a file that had another content gets the current time,
# whichever it has in the checkout, and the others keep theirs. What is saved later, while they are
# compiled, is not part of the copy. FOLDER.sums has hashes and names of its files.
update_copy() {
	local copy=$1 sums=$1.sums
	shift
	[ -e "$sums" ] || rm -rf "$copy"
	mkdir -p "$copy"
	: >>"$sums"
	# In subshells, which change the folder.
	(source_sums "$@") >"$sums.new"
	(
		export LC_ALL=C
		names() { cut -c67- | sort -u; }
		cd "$copy"
		comm -23 <(names <"$sums") <(names <"$sums.new") | xargs -d '\n' -r rm -f
		# An interrupted update leaves the names of all files that may be in the copy.
		cat "$sums.new" >>"$sums"
		# The files themselves, as a tool may have changed them (scripts/mutants).
		comm -13 <(names <"$sums.new" | xargs -d '\n' -r sha256sum 2>/dev/null | sort) "$sums.new" | names >"$sums.changed"
		cd "$RKFD_SRC"
		xargs -d '\n' -r cp --parents -t "$copy" <"$sums.changed"
		cd "$copy"
		names <"$sums.new" | xargs -d '\n' -r sha256sum | sort >"$sums.of"
	)
	mv "$sums.of" "$sums"
	rm -f "$sums.new" "$sums.changed"
}

is_guest_root() { case " $GUEST_ROOTS $EXTRA_ROOTS " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

# guest_suite ROOT: Debian release of a guest root.
guest_suite() { if [ "$1" = trixie ]; then echo trixie; else echo "$GUEST_SUITE"; fi; }
# experimental_sources ROOT: source packages that a guest root takes from experimental.
experimental_sources() {
	case $1 in
	rocm7) printf '%s\n' $ROCM7_SOURCES ;;
	libraries) printf '%s\n' $ROCM7_SOURCES $LIBRARY_SOURCES ;;
	library-tests) printf '%s\n' $ROCM7_SOURCES $LIBRARY_SOURCES $LIBRARY_TEST_SOURCES ;;
	esac
}
# root_isas ROOT: ISAs whose code objects of libraries are installed in a guest root.
root_isas() {
	case $1 in
	libraries | library-tests) printf '%s\n' $LIBRARY_ISAS ;;
	ggml) printf '%s\n' $GGML_ISAS ;;
	esac
}
# Prints the test programs of libraries, PACKAGE/PROGRAM.
library_test_programs() { awk -F' *[|] *' '/^[^#]/ { print $1 }' "$RKFD_SRC/tests/rocm/library-tests.list" | sort -u; }

# guest_packages ROOT: packages of a guest root, a line each.
guest_packages() {
	if [ "$1" = tinygrad ]; then printf '%s\n' $TINYGRAD_PACKAGES; return; fi
	printf '%s\n' $GUEST_PACKAGES
	if has_unstable "$1"; then printf '%s\n' $GUEST_UNSTABLE; fi
	[ "$1" != libraries ] || printf '%s\n' $LIBRARY_PACKAGES
	[ "$1" != library-tests ] || printf '%s\n' $LIBRARY_TEST_PACKAGES
	[ "$1" != ggml ] || printf '%s\n' $GGML_PACKAGES
	[ "$1" != podman ] || printf '%s\n' $PODMAN_PACKAGES
	if [ "$1" = gdb ]; then printf '%s\n' $GDB_PACKAGES; else printf '%s\n' $SMI_PACKAGES; fi
}
has_unstable() { [ "$1" != tinygrad ] && [ "$1" != trixie ]; }

# Prints name and packages of a guest root, and further settings that define its content. The first
# values of GUEST_SUITE and ROOTS_REVISION are not part of it: the roots keep their names.
guest_content() {
	printf '%s\n' "$1"
	if [ "$1" != trixie ] && [ "$GUEST_SUITE" != forky ]; then printf '%s\n' "$GUEST_SUITE"; fi
	[ -z "$ROOTS_REVISION" ] || printf '%s\n' "$ROOTS_REVISION"
	guest_packages "$1"
	experimental_sources "$1"
	case $1 in
	gdb) printf '%s\n' $GDB_OPTIONS ;;
	tinygrad) printf '%s\n' "$TINYGRAD_VERSION" "$TINYGRAD_SHA256" ;;
	library-tests) library_test_programs ;;
	esac
	root_isas "$1"
}

# guest_dir ROOT: folder of a guest root: tree/ to build in, disk.erofs to boot from, `ready` with
# the name of its content.
guest_dir() { printf '%s/guest-%s-%s' "$RKFD_CACHE" "$1" "$(guest_content "$1" | sha256sum | cut -c1-12)"; }

# Prints the version of the module.
module_version() { sed -n 's/^MODULE_VERSION("\(.*\)");/\1/p' "$RKFD_SRC/rust/c/helpers.c"; }

# Tools that build Debian packages, and those that rkfd-vm depends on (packaging/debian/control).
DEB_PACKAGES="debhelper dh-dkms dpkg-dev lintian mmdebstrap mount"

# Folders of the browser root and of the root for the packages: tree/, and `ready` once it is
# complete.
browser_dir() { printf '%s/browser-%s' "$RKFD_CACHE" "$(printf '%s\n' "$RKFD_SUITE" $BROWSER_PACKAGES $ROOTS_REVISION | sha256sum | cut -c1-12)"; }
# shellcheck disable=SC2046
package_packages() { printf '%s\n' dkms "linux-headers-$(kernel_release)" $("$RKFD_SRC/scripts/dkms" packages) $DEB_PACKAGES; }
package_dir() { printf '%s/package-%s' "$RKFD_CACHE" "$({ package_packages; printf '%s' "$ROOTS_REVISION"; } | sha256sum | cut -c1-12)"; }

# Prints the release (uname -r) of the kernel in the cache, nothing before set-up.
kernel_release() { cat "$RKFD_CACHE/kernel-$RKFD_SERIES.release" 2>/dev/null || true; }
kernel_dir() { printf '%s/kernel-%s' "$RKFD_CACHE" "$(kernel_release)"; }

# Prints the configuration of the kernel that KERNEL selects, debug or kasan: lines of kasan.config
# replace those of debug.config.
kernel_config() {
	local configs=("$RKFD_SRC/tests/vm/debug.config")
	[ "$KERNEL" = debug ] || configs=("$RKFD_SRC/tests/vm/$KERNEL.config" "${configs[@]}")
	awk -F= '/^CONFIG_/ && !seen[$1]++' "${configs[@]}"
}
# Folder of that kernel, named by release and a hash of its configuration: `vmlinux`, `build` (the
# tree for KDIR), `ready`.
built_kernel_dir() { printf '%s-%s-%s' "$(kernel_dir)" "$KERNEL" "$(kernel_config | sha256sum | cut -c1-12)"; }
# crates_ready FOLDER: whether that kernel exists, with crates of the build root's compiler.
crates_ready() {
	[ -e "$1/ready" ] && [ "$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="rustc \([0-9.]*\).*/\1/p' "$1/build/.config")" = \
		"$(sed -n '/^Package: rustc$/,/^$/s/^Version: \([0-9.]*\).*/\1/p' "$RKFD_ROOT/var/lib/dpkg/status")" ]
}
# built_ready: whether the kernel exists that KERNEL selects beside the stock one. An empty file
# `ready` is that of the first compilers.
built_ready() {
	local dir
	[ "$KERNEL" != stock ] || return 0
	dir=$(built_kernel_dir)
	crates_ready "$dir" && { [ ! -s "$dir/ready" ] || kernel_compilers | cmp -s - "$dir/ready"; }
}
# Prints its compilers as arguments of make. With Rust, KASAN needs clang.
kernel_compilers() {
	if [ "$KERNEL" = kasan ]; then
		printf '%s\n' LLVM=-19 CC=clang-19 HOSTCC=clang-19
	else
		printf '%s\n' CC=x86_64-linux-gnu-gcc-14 HOSTCC=gcc-14
	fi
}

# Selected by KERNEL: the tree that the module is built against, the module's folder below
# $RKFD_OUT.
kernel_tree() { if [ "$KERNEL" = stock ]; then kernel_dir; else built_kernel_dir; fi; }
module_folder() { if [ "$KERNEL" = stock ]; then echo "module${COVERAGE:+-coverage}"; else echo "module-$KERNEL"; fi; }
# make_in_kernel TREE TARGET [ARGUMENT...]: builds a target from the sources of the module in TREE
# for the kernel that KERNEL selects.
make_in_kernel() {
	local tree=$1 target=$2 rel version=()
	shift 2
	rel=$(kernel_release)
	[ "$KERNEL" != stock ] || version=(LOCALVERSION="${rel#"${rel%%+*}"}")
	# shellcheck disable=SC2046
	"$RKFD_SRC/scripts/in-root" make -C "$(kernel_tree)/build" M="$tree" $(kernel_compilers) "${version[@]}" "$@" "$target"
}
make_module() { make_in_kernel "$1" modules "${@:2}"; }

# compare_boot NAME OPTION...: boots with the workload `compare` and the log of the model that
# compare_logs reads. Without address randomization, so that addresses of the process are
# comparable. With the VRAM of a whole card most memory would be the struct pages of the stock
# driver. With QUICK=1 it is `compare -q`, and queues with waves cannot be preempted. With SYSFS=1
# it is `compare -s`.
compare_boot() {
	local name=$1 command=(compare)
	shift
	if [ -n "${SYSFS-}" ]; then
		command+=(-s)
	elif [ -n "${QUICK-}" ]; then
		command+=(-q)
		set -- "$@" --knob hws.stuck_xcc=1
	fi
	VM_CPUS=1 "$RKFD_SRC/scripts/vm" --quiet --name "$name" --timeout 900 --memory 4G --vram 8G \
		--trace-detail registers --trace-detail walks --trace-detail mqds \
		--append norandmaps "$@" "${command[@]}"
}

# side_by_side TITLE=LOG...: prints the medians of `bench` in the logs in one table, by number of
# live queues or BOs; of two logs also the ratio.
side_by_side() {
	local column titles=() logs=()
	for column; do
		titles+=("${column%%=*}")
		logs+=("${column#*=}")
	done
	printf '%-28s %6s' "" "live"
	printf ' %26s' "${titles[@]}"
	[ $# != 2 ] || printf ' %6s' ratio
	echo
	awk '
		FNR == 1 { file++ }
		/^bench: .* live=/ {
			what = $0
			sub(/^bench: */, "", what); sub(/ *live=.*/, "", what)
			match($0, /live=[0-9]+/); live = substr($0, RSTART + 5, RLENGTH - 5)
			match($0, /median=[0-9]+/); median = substr($0, RSTART + 7, RLENGTH - 7)
			key = sprintf("%-28s %6d", what, live)
			if (!(key in seen)) { seen[key] = 1; order[++n] = key }
			value[key, file] = median
		}
		END {
			for (i = 1; i <= n; i++) {
				line = order[i]
				for (f = 1; f <= file; f++) line = line sprintf(" %26s", value[order[i], f])
				if (file == 2 && value[order[i], 2] > 0)
					line = line sprintf(" %6.2f", value[order[i], 1] / value[order[i], 2])
				print line
			}
		}' "${logs[@]}"
}

# compare_logs ARGUMENT...: runs rkfd-compare, which is built with the model.
compare_logs() { in_root "$RKFD_OUT/model/rkfd-compare" "$@"; }

# edges ARGUMENT...: runs covered-edges.py.
edges() { in_root "$RKFD_SRC/scripts/covered-edges.py" "$@"; }

# compare_drivers CHIP NAME=FOLDER...: reports the differences. The first entry that matches gives
# the reason of a difference: those of the chip come before the common ones.
compare_drivers() {
	local chip=$1 options=() list lists=(differences differences-sysfs)
	shift
	[ "$chip" != rx9070 ] || lists=(differences-gfx12 "${lists[@]}")
	for list in "${lists[@]}"; do options+=(--intended "$RKFD_SRC/Documentation/$list.rst"); done
	[ -z "${SYSFS-}" ] || options+=(--sysfs)
	compare_logs "${options[@]}" "$@"
}

kernel_name() { printf '%s kernel %s' "$KERNEL" "$(kernel_release)"; }

# Folder of the current firmware in the cache: amdgpu/NAME, `version` and `sha256` of the package.
firmware_dir() { printf '%s/firmware-%s' "$RKFD_CACHE" "$(cat "$RKFD_CACHE/firmware.version" 2>/dev/null || true)"; }
firmware_ready() {
	local file
	for file in $FIRMWARE_FILES; do [ -s "$(firmware_dir)/amdgpu/$file" ] || return 1; done
}

# Error reports of a kernel on the console.
COMPLAINTS='BUG:|WARNING:|Oops|refcount_t:|general protection|Call Trace|UBSAN|KASAN|panicked at|possible recursive locking|INFO: task .* blocked'

# Size of the disks with the guest's root file system, which is a part of the guest's state.
DISK_SIZE=$((4 << 30))
# make_disk FILE FOLDER: writes the content of FOLDER to such a disk.
make_disk() {
	rm -f "$1"
	mkfs.erofs --quiet "$1" "$2"
	[ "$(stat -c %s "$1")" -le "$DISK_SIZE" ] || die "the programs and --files for the guest are larger than its disk of $DISK_SIZE bytes"
	truncate -s "$DISK_SIZE" "$1"
}
# set_disks PAYLOAD PROGRAMS: sets disks to QEMU's arguments for these two. Legacy devices: they
# have no 64-bit BAR.
set_disks() {
	disks=(-drive "file=$1,if=none,id=payload,format=raw,readonly=on" -device "virtio-blk-pci,drive=payload,serial=payload,disable-modern=on"
		-drive "file=$2,if=none,id=programs,format=raw,readonly=on" -device "virtio-blk-pci,drive=programs,serial=programs,disable-modern=on")
}

need_root() { [ "$(id -u)" = 0 ] || die "root privileges are needed to create and enter Debian root file systems: run with sudo"; }

# lock_snapshot FILE DESCRIPTOR [-s]: locks a snapshot, with -s shared. scripts/vm-snapshot removes
# old locks: one that is removed while this waits for it is made again.
lock_snapshot() {
	while :; do
		eval "exec $2>\"\$1\""
		flock -w 1800 ${3-} "$2" || die "$1 is still held after 1800 s: a scripts/vm-snapshot hangs"
		[ ! "$1" -ef "/dev/fd/$2" ] || return 0
	done
}

# step TITLE ON_FAILURE COMMAND...: runs COMMAND with its output in a log and shows the time passed.
# If it fails, calls ON_FAILURE (which ends the script) with $STEP_LOG set. COMMAND runs under
# errexit, therefore a step must not be part of a condition.
step() {
	local title=$1 on_failure=$2 start=$SECONDS pid rc=0
	shift 2
	mkdir -p "$RKFD_CACHE/logs"
	STEP_LOG=$RKFD_CACHE/logs/$(printf '%s' "$title" | tr -c 'a-zA-Z0-9.\n' '-').log
	printf 'rkfd: %s ... ' "$title" >&2
	# In a process group of its own, so that an interrupted script can end all of it
	# ($STEP_PID).
	set -m
	"$@" </dev/null >"$STEP_LOG" 2>&1 &
	pid=$!
	set +m
	STEP_PID=$pid
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.5
		if [ -t 2 ]; then
			printf '\rrkfd: %s ... %ss ' "$title" $((SECONDS - start)) >&2
		fi
	done
	wait "$pid" || rc=$?
	STEP_PID=
	if [ "$rc" != 0 ]; then
		printf 'failed\n' >&2
		"$on_failure"
		exit "$rc"
	fi
	printf '%ss\n' $((SECONDS - start)) >&2
}
