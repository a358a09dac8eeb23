#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Tests of scripts/ in a checkout of their own with an empty cache, in which the scripts that need a
# build root or a VM are replaced. Prints a line per test; `make lint` runs it.
#   test_scripts.sh [TEST...]

set -euo pipefail
# A signal that is ignored, as SIGHUP below nohup, cannot be trapped.
[ "${RKFD_SIGNALS-}" = default ] || RKFD_SIGNALS=default exec env --default-signal=HUP,INT,TERM "$0" "$@"
scripts=$(cd "$(dirname "$0")/../../scripts" && pwd -P)
busybox=$(. "$scripts/lib.sh" && echo "$RKFD_ROOT/bin/busybox")
work=$(mktemp -d /tmp/rkfd-scripts.XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

fail() { printf '# %s\n' "$*"; exit 1; }
# expect FILE CONTENT
expect() { [ "$(cat "$1")" = "$2" ] || fail "$1 is '$(cat "$1")', not '$2'"; }
# replace NAME: replaces a script by standard input.
replace() {
	cat >"scripts/$1"
	chmod +x "scripts/$1"
}
# Makes the checkout, the current folder, and the cache.
checkout() {
	export RKFD_CACHE=$work/cache
	unset RKFD_OUT CARGO_TARGET_DIR CHIP KERNEL COVERAGE DRIVER LONG CI RKFD_IN_ROOT MAKEFLAGS MAKELEVEL
	for variable in "${!GIT_@}"; do unset "$variable"; done
	mkdir -p "$work/checkout" "$RKFD_CACHE/kernel-7.3.0+deb13-amd64/build"
	touch "$RKFD_CACHE/kernel-7.3.0+deb13-amd64/build/Module.symvers"
	echo 7.3.0+deb13-amd64 >"$RKFD_CACHE/kernel-7.3.release"
	cd "$work/checkout"
	git init -q .
	echo /build/ >.gitignore
	cp -r "$scripts" .
	replace setup <<<'#!/bin/sh'
}

# A compiler in place of the build root's: rkfd.ko has the content of rkfd.rs when it starts.
# $work/during, if it exists, runs meanwhile.
compiler() {
	mkdir -p rust tests/coverage
	touch Kbuild
	replace in-root <<-EOF
		#!/bin/bash
		for word; do case \$word in M=*) cd "\${word#M=}" ;; esac; done
		echo run >>$work/compiled
		[ rkfd.ko -nt rust/rkfd.rs ] && exit
		source=\$(cat rust/rkfd.rs)
		[ ! -e $work/during ] || bash $work/during
		echo "\$source" >rkfd.ko
	EOF
}
build() { scripts/build module >"$work/log" 2>&1 || fail "scripts/build: $(cat "$work/log")"; }

test_build_of_a_file_saved_during_a_build() {
	compiler
	echo one >rust/rkfd.rs
	echo "echo two >$PWD/rust/rkfd.rs; sleep 0.1" >"$work/during"
	build
	expect build/module/rkfd.ko one
	rm "$work/during"
	build
	expect build/module/rkfd.ko two
	echo one >rust/rkfd.rs
	build
	expect build/module/rkfd.ko one
}
test_build_of_an_older_file() {
	compiler
	echo one >rust/rkfd.rs
	touch -d '1 hour ago' rust/rkfd.rs
	cp -p rust/rkfd.rs rkfd.rs.bak
	echo two >rust/rkfd.rs
	build
	expect build/module/rkfd.ko two
	mv rkfd.rs.bak rust/rkfd.rs
	build
	expect build/module/rkfd.ko one
}
test_build_of_unchanged_files_compiles_nothing() {
	compiler
	echo one >rust/rkfd.rs
	build
	touch rust/rkfd.rs
	build
	expect "$work/compiled" run
}
test_build_for_another_kernel_of_the_same_name() {
	compiler
	echo one >rust/rkfd.rs
	build
	echo symbol >"$RKFD_CACHE/kernel-7.3.0+deb13-amd64/build/Module.symvers"
	build
	expect "$work/compiled" 'run
run'
	scripts/build module
	expect "$work/compiled" 'run
run'
}
test_build_on_a_full_disk() {
	compiler
	echo one >rust/rkfd.rs
	mkdir "$work/bin"
	printf '#!/bin/sh\necho part >"$4"; echo "tar: No space left on device" >&2; exit 2\n' >"$work/bin/tar"
	chmod +x "$work/bin/tar"
	! PATH=$work/bin:$PATH scripts/build module 2>"$work/log" || fail "it passed"
	expect "$work/log" "rkfd: writing the module to $RKFD_CACHE failed: tar: No space left on device"
	[ -z "$(ls "$RKFD_CACHE/products")" ] || fail "left: $(ls "$RKFD_CACHE/products")"
}
test_clean_keeps_what_the_user_ignores() {
	echo .envrc >"$work/ignored"
	git config core.excludesFile "$work/ignored"
	touch .envrc
	mkdir build
	scripts/clean
	[ ! -e build ] || fail "products are left"
	[ -e .envrc ] || fail "a file of the user is removed"
}
test_builds_at_the_same_time() {
	compiler
	echo one >rust/rkfd.rs
	echo "for _ in \$(seq 100); do ! grep -qs waiting $work/log || break; sleep 0.1; done" >"$work/during"
	scripts/build module 2>"$work/first" &
	for _ in $(seq 600); do [ ! -e "$work/compiled" ] || break; sleep 0.1; done
	build
	wait $! || fail "$(cat "$work/first")"
	expect "$work/compiled" run
	grep -q '^rkfd: waiting' "$work/log" || fail "$(cat "$work/log")"
}
# The model is compiled from a copy that is made later.
test_build_of_a_model_whose_sources_change() {
	mkdir -p rust/abi tests/{regs,model,compare,vm}
	touch tests/Cargo.toml tests/Cargo.lock tests/vm/port-atomics.c
	echo one >tests/model/main.rs
	replace in-root <<-EOF
		#!/bin/bash
		[ "\$1" = --target ] || exit 0
		[ -e $work/compiled ] || echo two >tests/model/main.rs
		cat tests/model/main.rs | tee -a $work/compiled >"\${!#}/rkfd-gpu"
		[ "\$(wc -l <$work/compiled)" != 1 ] || echo three >tests/model/main.rs
	EOF
	scripts/build model 2>"$work/log" || fail "$(cat "$work/log")"
	expect "$work/compiled" 'two
three'
	expect build/model/rkfd-gpu three
	[ "$(ls "$RKFD_CACHE/products" | wc -l)" = 1 ] || fail "cached: $(ls "$RKFD_CACHE/products")"
}
test_copies_change_only_other_contents() {
	. scripts/lib.sh
	mkdir -p rust
	for name in same other deleted; do echo 1 >"rust/$name"; done
	update_copy "$work/copy" rust
	touch -d '1 hour ago' "$work"/copy/rust/*
	touch "$work/start" rust/same
	echo 2 >rust/other
	touch -d '2 hours ago' rust/other
	rm rust/deleted
	update_copy "$work/copy" rust
	expect "$work/copy/rust/other" 2
	[ ! "$work/copy/rust/other" -ot "$work/start" ] || fail "a file with another content has an old time"
	[ "$work/copy/rust/same" -ot "$work/start" ] || fail "a file with the same content has a new time"
	[ ! -e "$work/copy/rust/deleted" ] || fail "a deleted file is left"
	echo tool >"$work/copy/rust/same"
	update_copy "$work/copy" rust
	expect "$work/copy/rust/same" 1
}

# fuzz STATUS OUTPUT: runs the fuzzer with a VM that ends like this.
fuzz() {
	replace build <<<'#!/bin/sh'
	replace in-root <<-'EOF'
		#!/bin/sh
		echo "Relocation section '.rela.text' at offset 0"
		echo "000000000010 R_X86_64_PLT32 __sanitizer_cov_trace_pc - 4"
	EOF
	replace vm <<-EOF
		#!/bin/sh
		mkdir -p build/logs/fuzz-mi300x-1xcc
		cd build/logs/fuzz-mi300x-1xcc
		touch model.log guest.log covered
		printf '%b' '$2' >out.log
		exit $1
	EOF
	echo "1 open" >program
	scripts/fuzz --replay program >"$work/log" 2>&1
}
test_fuzz() {
	fuzz 0 '# fuzz: 3 s, 40 programs, 90 calls\nrkfd-vm: exit 0\n' || fail "$(cat "$work/log")"
	! fuzz 96 '# fuzz: 3 s, 40 programs, 90 calls\nnot ok 2 log\nrkfd-vm: exit 96\n' || fail "no finding"
	grep -q '^finding: not ok 2 log' "$work/log" || fail "$(cat "$work/log")"
}
test_fuzz_without_a_driver_fails() { ! fuzz 98 'rkfd-vm: exit 98\n' || fail "$(cat "$work/log")"; }
test_fuzz_without_programs_fails() { ! fuzz 0 '# fuzz: 3 s, 0 programs, 0 calls\nrkfd-vm: exit 0\n' || fail "$(cat "$work/log")"; }
test_fuzz_of_an_unreadable_file_fails() { ! fuzz 1 'rkfd-vm: exit 1\n' || fail "$(cat "$work/log")"; }

# boot: a VM that takes as long as the file $work/vm exists.
boot() {
	mkdir -p tests/vm
	echo 'one | mi300x | | true' >tests/vm/boots
	touch tests/vm/outcomes "$work/vm"
	replace build <<<'#!/bin/sh'
	replace in-root <<-'EOF'
		#!/bin/sh
		exec "$@"
	EOF
	replace vm <<-EOF
		#!/bin/sh
		mkdir -p build/logs/check-one-mi300x
		echo \$\$ >$work/pid
		echo 'ok 1 one.test' >build/logs/check-one-mi300x/out.log
		while [ -e $work/vm ]; do sleep 0.1; done
	EOF
	scripts/check vm:one >"$work/check" 2>&1 &
	for _ in $(seq 300); do [ ! -e build/logs/check-one-mi300x/out.log ] || return 0; sleep 0.1; done
	fail "the boot did not start: $(cat "$work/check")"
}
test_checks_of_a_boot_at_the_same_time() {
	boot
	! timeout 60 scripts/check vm:one >"$work/second" || fail "the second one passed"
	grep -q 'another scripts/check' "$work/second" || fail "$(cat "$work/second")"
	[ -e build/logs/check-one-mi300x/out.log ] || fail "the log of the running boot is removed"
	rm "$work/vm"
	wait || fail "$(cat "$work/check")"
	[ "$(tail -n 1 "$work/check")" = '2 passed, 0 failed' ] || fail "$(cat "$work/check")"
}
# ended PID: waits for the end of a process.
ended() {
	for _ in $(seq 300); do [ -e "/proc/$1" ] || return 0; sleep 0.1; done
	kill "$1"
	fail "process $1 is still running"
}
test_host_tests_have_a_time_limit() {
	mkdir -p tests/vm
	touch tests/vm/boots
	sed -i 's/limit=3600/limit=5/' scripts/check
	replace in-root <<-EOF
		#!/bin/sh
		case "\$*" in *--no-run*) exit ;; esac
		sh -c 'echo \$\$ >$work/pid; sleep 600; :'
	EOF
	! scripts/check host >"$work/check" || fail "the check passed"
	grep -q '^not ok host tests ran to the end (status 124)' "$work/check" || fail "$(cat "$work/check")"
	ended "$(cat "$work/pid")"
}

test_a_lost_connection_ends_boots() {
	boot
	kill -HUP $!
	ended $!
	ended "$(cat "$work/pid")"
}
# root MIRROR [ARGUMENT...]: becomes set-up with commands of the host that are replaced: mmdebstrap
# is standard input.
root() {
	mkdir "$work/bin"
	printf '#!/bin/sh\necho "Filesystem 1048576-blocks Used Available"; echo / 1 1 99999\n' >"$work/bin/df"
	printf '#!/bin/sh\necho "Debian %s"\n' "$1" >"$work/bin/apt-get"
	cat >"$work/bin/mmdebstrap"
	chmod +x "$work"/bin/*
	cp "$scripts/setup" scripts/
	unset RKFD_MIRROR
	PATH=$work/bin:$PATH exec scripts/setup "${@:2}" >"$work/log" 2>&1
}
test_a_lost_connection_ends_setup() {
	root http://localhost/debian <<-EOF &
		#!/bin/sh
		echo \$\$ >$work/pid
		exec sleep 60
	EOF
	for _ in $(seq 300); do [ ! -s "$work/pid" ] || break; sleep 0.1; done
	kill -HUP $!
	wait $! || true
	ended "$(cat "$work/pid")"
}
test_setup_reads_a_list_of_mirrors() {
	printf '# mirrors\nhttp://localhost/debian\tpriority:1\nhttp://other/debian\n' >"$work/mirrors"
	(root "mirror+file://$work/mirrors") <<-EOF || true
		#!/bin/sh
		printf '%s\n' "\$@" >$work/arguments
		exit 1
	EOF
	grep -q '^deb http://localhost/debian trixie main$' "$work/arguments" || fail "$(grep '^deb ' "$work/arguments" "$work/log")"
}

# full_cache: makes a cache that has everything but roots beside the build root.
full_cache() {
	. scripts/lib.sh
	mkdir -p "$RKFD_ROOT/var/lib/dpkg" "$RKFD_CACHE/firmware-1/amdgpu"
	printf 'Package: rustc\nVersion: 1.85.1+dfsg1-1\n\n' >"$RKFD_ROOT/var/lib/dpkg/status"
	printf 'CONFIG_RUSTC_VERSION_TEXT="rustc 1.85.1 (x)"\n' >"$(kernel_dir)/build/.config"
	touch "$(kernel_dir)/ready"
	echo 1 >"$RKFD_CACHE/firmware.version"
	for file in $FIRMWARE_FILES; do echo 1 >"$(firmware_dir)/amdgpu/$file"; done
}
test_setup_of_a_full_cache() {
	full_cache
	(root http://localhost/debian <<<'') || fail "$(cat "$work/log")"
	expect "$work/log" ''
}
test_setup_with_crates_of_another_compiler() {
	full_cache
	sed -i 's/1\.85/1.86/' "$RKFD_ROOT/var/lib/dpkg/status"
	mkdir -p "$(kernel_dir)/debs"
	touch "$(kernel_dir)/debs/complete"
	! (root http://localhost/debian <<<'') || fail "the crates are kept"
	grep -q '^rkfd: unpack kernel' "$work/log" || fail "$(cat "$work/log")"
}
test_setup_with_a_mirror_that_lacks_packages() {
	(root http://localhost/debian) <<-'EOF' || true
		#!/bin/sh
		echo "E: Unable to locate package erofs-utils"
		exit 100
	EOF
	grep -q 'the mirror http://localhost/debian lacks erofs-utils (see' "$work/log" || fail "$(cat "$work/log")"
}
test_setup_without_headers_of_an_older_kernel() {
	full_cache
	(root http://localhost/debian package) <<-'EOF' || true
		#!/bin/sh
		echo "E: Unable to locate package linux-headers-7.3.0+deb13-amd64"
		exit 100
	EOF
	grep -q 'run scripts/setup --update package' "$work/log" || fail "$(cat "$work/log")"
}

# packages RELEASE...: makes the folder that RKFD_KERNEL_DEBS names, with the kernel's packages.
packages() {
	export RKFD_KERNEL_DEBS=$work/debs
	mkdir "$work/debs"
	touch "$work/debs/linux-source-7.3_7.3.0-1_all.deb"
	for release; do touch "$work/debs"/linux-{headers,binary-unsigned,modules}-"$release"_7.3.0-1_amd64.deb; done
}
# The first step after the check.
no_root() { grep -q '^rkfd: build root' "$work/log"; }
test_setup_with_packages_of_two_kernels() {
	packages 7.3.0+deb13-amd64 7.3.1+deb13-amd64
	! (root http://localhost/debian <<<'') || fail "it passed"
	grep -q '^rkfd: RKFD_KERNEL_DEBS=.* has headers of several kernels' "$work/log" || fail "$(cat "$work/log")"
}
test_setup_with_packages_of_other_flavours() {
	packages 7.3.0+deb13-amd64 7.3.0+deb13-cloud-amd64 7.3.0+deb13-rt-amd64
	(root http://localhost/debian <<<'exit 1') || true
	no_root || fail "$(cat "$work/log")"
}
test_setup_with_packages_of_another_flavour_only() {
	packages 7.3.0+deb13-rt-amd64
	! (root http://localhost/debian <<<'') || fail "it passed"
	! no_root || fail "the packages are accepted"
	grep -q '^rkfd: RKFD_KERNEL_DEBS=.* has no linux-headers-7.3' "$work/log" || fail "$(cat "$work/log")"
}

# snapshot: runs scripts/vm-snapshot with a QEMU that fails. Locks of snapshots are two weeks old.
snapshot() {
	mkdir "$work/snapshots"
	touch -d '2 weeks ago' "$work"/snapshots/{old,used,new}.lock
	touch "$work/snapshots/new.lock" "$work/initrd"
	exec 7<"$work/snapshots/used.lock"
	flock -s 7
	scripts/vm-snapshot "$work/snapshots/key" "$work/initrd" false >"$work/log" 2>&1 || true
	grep -q 'the guest does not start' "$work/log" || fail "$(cat "$work/log")"
}
test_old_locks_of_snapshots_are_removed() {
	snapshot
	(cd "$work/snapshots" && echo *.lock) >"$work/left"
	expect "$work/left" 'key.lock new.lock used.lock'
}

# enter COMMAND...: runs in-root with a build root that has busybox only; enter_for_cargo: with
# the copy of tests/.
enter() { enter_with busybox "$@"; }
enter_for_cargo() { enter_with --target busybox "$@"; }
enter_with() {
	local root
	root=$(. scripts/lib.sh && echo "$RKFD_ROOT")
	mkdir -p "$root"/{bin,proc,sys}
	cp "$busybox" "$root/bin/"
	printf '#!/bin/busybox sh\nexec /bin/busybox sh "$@"\n' >"$root/bin/bash"
	chmod +x "$root/bin/bash"
	scripts/in-root "$@"
}
test_environment_of_the_build_root() {
	export CFLAGS=-O0 LDFLAGS='' RUSTC_WRAPPER=sccache RUSTFLAGS=-Cx CARGO_BUILD_TARGET=x LLVM=1 ARCH=x KCFLAGS=-x MAKEFLAGS=k CC=x
	export KERNEL=debug CHIP=rx9070 VM_CPUS=1 COVERAGE='' http_proxy=proxy CARGO_REGISTRIES_MIRROR_INDEX=x
	unset HOME
	enter env | cut -d= -f1 | grep -xE 'CFLAGS|LDFLAGS|RUSTC.*|RUSTFLAGS|CARGO_[BR].*|LLVM|ARCH|KCFLAGS|MAKEFLAGS|CC|KERNEL|CHIP|VM_CPUS|COVERAGE|http_proxy' |
		LC_ALL=C sort | tr '\n' ' ' >"$work/names"
	expect "$work/names" 'CARGO_REGISTRIES_MIRROR_INDEX CHIP COVERAGE KERNEL VM_CPUS http_proxy '
}
test_socket_of_a_gpu_in_run() {
	export GPU_SOCKET=/run/rkfd-scripts.$$/socket
	mkdir "${GPU_SOCKET%/*}"
	trap 'rm -r "${GPU_SOCKET%/*}"' EXIT
	perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && bind(S, pack_sockaddr_un($ARGV[0])) || exit 1' "$GPU_SOCKET"
	enter test -S "$GPU_SOCKET" || fail "the build root has no $GPU_SOCKET"
}
test_target_folders_of_removed_worktrees() {
	mkdir -p "$RKFD_CACHE"/target-{kept,removed,used}
	touch "$RKFD_CACHE"/target-{kept,removed,used}/lock
	echo "$PWD" >"$RKFD_CACHE/target-kept/checkout"
	for name in removed used; do echo "$work/$name" >"$RKFD_CACHE/target-$name/checkout"; done
	exec 7<"$RKFD_CACHE/target-used/lock"
	flock 7
	mkdir -p rust tests uapi
	enter true
	[ -e "$RKFD_CACHE/target-removed" ] || fail "a folder is removed by a command that is not cargo"
	enter_for_cargo true
	(cd "$RKFD_CACHE" && echo target-*) >"$work/left"
	expect "$work/left" 'target-kept target-used'
}
test_configuration_of_cargo() {
	export CARGO_HOME=$work/home
	mkdir "$work/home"
	cat >"$work/home/config.toml" <<-'EOF'
		[build]
		rustc-wrapper = "sccache"
		[source.crates-io]
		replace-with = 'mirror'
		[target.x86_64-unknown-linux-gnu]
		linker = "lld"
		[registries.mirror]
		index = "sparse+http://localhost/"
	EOF
	enter true
	expect "$RKFD_CACHE/cargo/config.toml" "[source.crates-io]
replace-with = 'mirror'
[registries.mirror]
index = \"sparse+http://localhost/\""
	rm "$work/home/config.toml"
	enter true
	expect "$RKFD_CACHE/cargo/config.toml" ''
}

[ $# -gt 0 ] || mapfile -t tests < <(declare -F | awk '$3 ~ /^test_/ { print $3 }')
[ $# = 0 ] || tests=("$@")
rc=0
for name in "${tests[@]}"; do
	rm -rf "${work:?}"/*
	# A process of its own, as errexit does not apply within a condition.
	(
		set -e
		checkout
		"$name"
	) &
	if wait $!; then echo "ok $name"; else echo "not ok $name"; rc=1; fi
done
exit "$rc"
