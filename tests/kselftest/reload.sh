#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Tests module unload and reload: it fails while in use, otherwise nothing is left over. rkfd has a
# folder amdgpu in /sys/module; the two exclude each other. RKFD_MODULE is the module file.

program=reload
# shellcheck source=tests/kselftest/ktap.sh
. "$(dirname "$0")/ktap.sh"

sched=$(dirname "$module")/gpu-sched.ko
rounds=3

echo "KTAP version 1"
need_module
echo "1..$((rounds * 4 + 9))"

# An open file holds a module reference.
exec 9<>/dev/kfd
if rmmod rkfd 2>/dev/null; then rc=1; else rc=0; fi
exec 9>&-
say $rc rmmod_with_open_file
[ -d /sys/module/rkfd ] || insmod "$module"

# One in debugfs, too: its close uses the file operations of the module.
exec 9</sys/kernel/debug/kfd/rls
if rmmod rkfd 2>/dev/null; then rc=1; else rc=0; fi
exec 9<&-
say $rc rmmod_with_open_debugfs_file
[ -d /sys/module/rkfd ] || insmod "$module"

for round in $(seq $rounds); do
	rmmod rkfd
	say $? "rmmod_$round"
	left=$(ls -d /dev/kfd /sys/class/kfd /sys/kernel/debug/kfd /sys/module/amdgpu \
		/dev/dri/renderD* 2>/dev/null | sed 's/^/# failed: left over: /')
	[ -z "$left" ] || echo "$left"
	[ -z "$left" ]
	say $? "nothing_left_$round"
	insmod "$module"
	say $? "insmod_$round"
	works "works_$round"
done

# Files by which programs detect AMD's driver.
[ "$(cat /sys/module/amdgpu/initstate)" = live ]
say $? "amdgpu_is_live"
[ "$(cat /sys/module/amdgpu/parameters/emu_mode)" = 0 ]
say $? "amdgpu_emu_mode_is_0"

# Any other module named amdgpu. It must not export symbols, which would fail first.
load-as "$module" amdgpu | grep -q 'Invalid argument'
say $? "amdgpu_refused_with_rkfd_loaded"
works "works_after_refused_amdgpu"

if [ ! -e "$sched" ]; then
	for name in load_amdgpu rkfd_refused_with_amdgpu_loaded works_after_amdgpu; do
		number=$((number + 1))
		echo "ok $number reload.$name # SKIP gpu-sched is not a module of this kernel"
	done
	exit $failed
fi

# The reverse. gpu-sched serves as amdgpu: rkfd needs its exports, under whichever name.
rmmod rkfd && rmmod gpu_sched && load-as "$sched" amdgpu
say $? "load_amdgpu"
mark_log
insmod "$module" 2>&1 | grep -q 'Device or resource busy' && log_since_mark | grep -q 'rkfd: .*amdgpu'
say $? "rkfd_refused_with_amdgpu_loaded"
rmmod amdgpu && insmod "$sched" && insmod "$module" && version >/dev/null 2>&1
say $? "works_after_amdgpu"
exit $failed
