# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Files of the guest, for scripts/vm, whose variables the functions use: $base, the initial file
# system with an init that waits for the payload, and $root, the payload, which is the guest's root
# file system, with the test programs of scripts/vm-programs below it. Sourced, never run.
# shellcheck disable=SC2154

# Prints the modules of the stock kernel in $base: those of disks and, so that snapshots have them,
# the ones that the driver depends on. The debug kernel has all of them built in.
base_modules() {
	[ "$KERNEL" = stock ] || return 0
	echo virtio_blk erofs overlay
	if [ "$driver" = amdgpu ]; then echo amdgpu; else modinfo -F depends "$module" | tr ',' '\n' | sed '/^rkfd_coverage$/d'; fi
}

# with_dependencies NAME...: prints the files of modules after those that they depend on.
with_dependencies() {
	local name
	for name; do
		modprobe -d "$kernel/modules" -S "$(kernel_release)" --show-depends "$name"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

# unpack_module FILE FOLDER: writes a module to FOLDER and prints the name of its file.
unpack_module() {
	local name=${1##*/}
	name=${name%.xz}
	name=${name%.zst}
	case $1 in
	*.xz) xz -dc "$1" ;;
	*.zst) zstd -qdc "$1" ;;
	*) cat "$1" ;;
	esac >"$2/$name"
	printf '%s\n' "$name"
}

# make_system FOLDER INIT: creates the common part of both: folders, busybox, init.
make_system() {
	mkdir -p "$1"/{bin,dev,proc,sys,lib/modules}
	cp /bin/busybox "$1/bin/"
	ln -s busybox "$1/bin/sh"
	cp "$RKFD_SRC/tests/vm/$2" "$1/init"
}

# Fills $base: modules but the driver, init.
make_base() {
	local file
	make_system "$base" init-base
	# shellcheck disable=SC2046
	with_dependencies $(base_modules) | awk '!/\/amdgpu\.ko/' | while read -r file; do
		unpack_module "$file" "$base/lib/modules"
	done >"$work/order"
	mv "$work/order" "$base/lib/modules/"
	(cd "$base" && find . | cpio --quiet -o -H newc >"$work/initrd")
}

# Fills $root: the driver, firmware, programs for a Debian root.
make_root() {
	make_system "$root" init
	mkdir "$root"/{run,tmp,etc,tests}
	printf 'root:x:0:0:root:/:/bin/sh\n' >"$root/etc/passwd"
	add_driver
	add_firmware
	# tests/kselftest/pci-error.c loads it.
	[ "$KERNEL" != stock ] || unpack_module "$(with_dependencies aer_inject | tail -n 1)" "$root/lib/modules" >/dev/null
	# Programs that were built in the guest's root and run only there.
	if [ -n "$guest" ]; then
		mkdir "$root/tests/rocm"
		if [ -d "$RKFD_OUT/rocm/$guest" ]; then find "$RKFD_OUT/rocm/$guest" -maxdepth 1 -type f -exec cp -t "$root/tests/rocm" {} +; fi
	fi
}

# Copies the driver, and the module that records its coverage.
add_driver() {
	local rename=()
	if [ "$driver" = amdgpu ]; then
		unpack_module "$(with_dependencies amdgpu | tail -n 1)" "$root/lib/modules" >/dev/null
		[ "${VM_STRIP:-1}" = 0 ] || strip --strip-unneeded "$root/lib/modules/amdgpu.ko"
		return
	fi
	# In the debug kernel this function is that of KCOV, which records the code of one task.
	[ "$KERNEL" = stock ] || [ -z "${COVERAGE-}" ] || rename=(--redefine-sym __sanitizer_cov_trace_pc=rkfd_trace_pc)
	objcopy --strip-debug "${rename[@]}" "$module" "$root/lib/modules/rkfd.ko"
	[ -z "${COVERAGE-}" ] || cp "${module%/*}/rkfd_coverage.ko" "$root/lib/modules/"
	# tests/kselftest/reload.sh loads it again.
	[ "$KERNEL" != stock ] || unpack_module "$(with_dependencies gpu-sched | tail -n 1)" "$root/lib/modules" >/dev/null
}

# The firmware of Debian's package, with the changes of --firmware.
add_firmware() {
	local firmware=$root/lib/firmware/amdgpu change file how
	firmware_ready || die "the GPU firmware is missing in the cache: run make setup"
	mkdir -p "$firmware"
	cp -t "$firmware" "$(firmware_dir)"/amdgpu/*
	for change in "${firmware_changes[@]}"; do
		file=${change%%=*} how=${change#*=}
		[ -e "$firmware/$file" ] || die "unknown firmware file $file: use one of $FIRMWARE_FILES"
		case $how in
		missing) rm "$firmware/$file" ;;
		cut:*) truncate -s "${how#cut:}" "$firmware/$file" ;;
		as:*) cp "$(firmware_dir)/amdgpu/${how#as:}" "$firmware/$file" ;;
		byte:*:*)
			how=${how#byte:}
			# shellcheck disable=SC2059
			printf "\\x$(printf %x "${how#*:}")" | dd of="$firmware/$file" bs=1 seek=$((${how%:*})) conv=notrunc status=none
			;;
		*) die "--firmware $change: unknown change, use missing, cut:BYTES, as:OTHER or byte:OFFSET:VALUE" ;;
		esac
	done
}

# write_command WORD...: writes /run/command, which holds the words quoted for any shell.
write_command() {
	local word
	{
		printf '#!/bin/sh\n'
		[ -z "$files" ] || printf 'cd /work && '
		for word in "$@"; do printf "'%s' " "${word//\'/\'\\\'\'}"; done
		printf '\n'
	} >"$root/run/command"
	chmod +x "$root/run/command"
}
