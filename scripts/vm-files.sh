# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Files of the guest, for scripts/vm, whose variables the functions use: $base, the initial file
# system with an init that waits for the payload, and $root, the payload, which is the guest's root
# file system. Sourced, never run.
# shellcheck disable=SC2154

# add_module ORDER NAME: adds a module of the stock kernel after its dependencies to the file ORDER
# and its folder.
add_module() {
	local order=$1 folder=${1%/*} word path file plain
	while read -r word path _; do
		[ "$word" = insmod ] || continue
		file=$(basename "$path")
		plain=${file%.xz}
		plain=${plain%.zst}
		if grep -qsxF "$plain" "$base/lib/modules/disks" "$order"; then continue; fi
		case $file in
		*.xz) xz -dc "$path" >"$folder/$plain" ;;
		*.zst) zstd -qdc "$path" >"$folder/$plain" ;;
		*) cp "$path" "$folder/$plain" ;;
		esac
		printf '%s\n' "$plain" >>"$order"
	done < <(modprobe -d "$kernel/modules" -S "$(kernel_release)" --show-depends "$2")
}

# Fills $base: busybox, the modules of disks, init.
make_base() {
	local dependency
	mkdir -p "$base"/{bin,dev,proc,sys,lib/modules}
	cp /bin/busybox "$base/bin/"
	ln -s busybox "$base/bin/sh"
	cp "$RKFD_SRC/tests/vm/init-base" "$base/init"
	: >"$base/lib/modules/disks"
	# The debug kernel has all of them built in.
	if [ "$KERNEL" = stock ]; then
		for dependency in virtio_blk erofs overlay; do add_module "$base/lib/modules/disks" "$dependency"; done
	fi
}

# Fills $root: the driver and its dependencies, firmware, programs.
make_root() {
	mkdir -p "$root"/{bin,dev,proc,sys,run,tmp,etc,lib/modules,tests}
	cp /bin/busybox "$root/bin/"
	ln -s busybox "$root/bin/sh"
	cp "$RKFD_SRC/tests/vm/init" "$root/init"
	printf 'root:x:0:0:root:/:/bin/sh\n' >"$root/etc/passwd"
	add_driver
	add_firmware
	add_programs
}

add_driver() {
	local dependency dependencies="" module rename=()
	: >"$root/lib/modules/order"
	if [ "$driver" = amdgpu ]; then
		dependencies+=" amdgpu"
	else
		module=$RKFD_OUT/$(module_folder)/rkfd.ko
		[ -e "$module" ] || die "rkfd.ko is not built: run scripts/build"
		# The debug kernel has this function, which records for KCOV what one task runs.
		[ "$KERNEL" = stock ] || [ -z "${COVERAGE-}" ] || rename=(--redefine-sym __sanitizer_cov_trace_pc=rkfd_trace_pc)
		objcopy --strip-debug "${rename[@]}" "$module" "$root/lib/modules/rkfd.ko"
		dependencies+=" $(modinfo -F depends "$module" | tr ',' ' ')"
	fi
	for dependency in $dependencies; do
		[ "$dependency" = rkfd_coverage ] || add_module "$root/lib/modules/order" "$dependency"
	done
	if [ "$driver" != amdgpu ] && [ -n "${COVERAGE-}" ]; then
		cp "$RKFD_OUT/$(module_folder)/rkfd_coverage.ko" "$root/lib/modules/"
		echo rkfd_coverage.ko >>"$root/lib/modules/order"
	fi
	# The driver itself is loaded last, with its parameters.
	sed -i '/^amdgpu\.ko$/d' "$root/lib/modules/order"
	if [ "$driver" = amdgpu ] && [ -n "${VM_STRIP-}" ]; then strip --strip-unneeded "$root/lib/modules/amdgpu.ko"; fi
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

add_programs() {
	local folder library
	for folder in kselftest workloads fuzz; do
		mkdir "$root/tests/$folder"
		if [ -d "$RKFD_OUT/$folder" ]; then find "$RKFD_OUT/$folder" -maxdepth 1 -type f -exec cp -t "$root/tests/$folder" {} +; fi
	done
	# Shared libraries of the dynamically linked programs, at the paths of their loader, and
	# libdrm's table of names. ldd indents them; its other lines name the programs.
	{ find "$root/tests" -type f -perm -u+x -exec ldd {} + 2>/dev/null || true; } |
		sed -nE 's/^\t(.* => )?(\/[^ ]+) \(0x[0-9a-f]+\)$/\2/p' | sort -u | while read -r library; do
		mkdir -p "$root$(dirname "$library")"
		cp -L "$library" "$root$library"
	done
	mkdir -p "$root/usr/share/libdrm"
	cp /usr/share/libdrm/amdgpu.ids "$root/usr/share/libdrm/"
	# Programs that were built in the guest's root and run only there.
	if [ -n "$guest" ]; then
		mkdir "$root/tests/rocm"
		if [ -d "$RKFD_OUT/rocm/$guest" ]; then find "$RKFD_OUT/rocm/$guest" -maxdepth 1 -type f -exec cp -t "$root/tests/rocm" {} +; fi
	fi
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
