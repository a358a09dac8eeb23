#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The module goes and comes back: not while somebody uses it, and then with nothing left over. While it is
# loaded it stands for amdgpu, and the two are not loaded at the same time.
# RKFD_MODULE is the file to load again.

module=${RKFD_MODULE:-/lib/modules/rkfd.ko}
sched=$(dirname "$module")/gpu-sched.ko
rounds=3
number=0
failed=0

say() {
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		echo "ok $number reload.$2"
	else
		echo "not ok $number reload.$2"
		failed=1
	fi
}

echo "KTAP version 1"
if [ ! -d /sys/module/rkfd ] || [ ! -e "$module" ]; then
	echo "1..1"
	echo "ok 1 reload # SKIP rkfd is not loaded from $module"
	exit 0
fi
echo "1..$((rounds * 4 + 8))"

# An open file holds the module.
exec 9<>/dev/kfd
if rmmod rkfd 2>/dev/null; then rc=1; else rc=0; fi
exec 9>&-
say $rc an_open_file_holds_the_module
[ -d /sys/module/rkfd ] || insmod "$module"

for round in $(seq $rounds); do
	rmmod rkfd
	say $? "rmmod_$round"
	# Nothing of it is left.
	if [ -e /dev/kfd ] || [ -e /sys/class/kfd ] || [ -e /sys/kernel/debug/kfd ] || [ -e /sys/module/amdgpu ] || ls /dev/dri/renderD* >/dev/null 2>&1; then
		ls -d /dev/kfd /sys/class/kfd /sys/kernel/debug/kfd /sys/module/amdgpu /dev/dri/renderD* 2>/dev/null | sed 's/^/# failed: left over: /'
		say 1 "nothing_is_left_$round"
	else
		say 0 "nothing_is_left_$round"
	fi
	insmod "$module"
	say $? "insmod_$round"
	version >/tmp/reload.out 2>&1
	rc=$?
	[ $rc = 0 ] || sed 's/^/# /' /tmp/reload.out
	say $rc "works_again_$round"
done

# What programs look at to see whether AMD's driver is there.
[ "$(cat /sys/module/amdgpu/initstate)" = live ]
say $? "amdgpu_is_live"
[ "$(cat /sys/module/amdgpu/parameters/emu_mode)" = 0 ]
say $? "amdgpu_does_not_emulate"

# Another module of that name: any will do. It must export nothing, or that is what it fails for.
dmesg -c >/dev/null
load-as "$module" amdgpu | grep -q 'Invalid argument'
say $? "amdgpu_is_refused_while_rkfd_is_loaded"
version >/tmp/reload.out 2>&1
say $? "works_beside_a_refused_amdgpu"

# The other way round. rkfd needs what this module exports, under whichever name.
rmmod rkfd && rmmod gpu_sched && load-as "$sched" amdgpu
say $? "amdgpu_is_loaded"
insmod "$module" 2>&1 | grep -q 'Device or resource busy' && dmesg | grep -q 'rkfd: amdgpu is loaded'
say $? "rkfd_is_refused_while_amdgpu_is_loaded"
rmmod amdgpu && insmod "$sched" && insmod "$module" && version >/tmp/reload.out 2>&1
say $? "works_after_amdgpu"
exit $failed
